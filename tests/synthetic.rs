//! Models without files: their sizes, their types, and that the device and the reference take them for the same model.

use crate::util::{assert_silent, exact, logits, nmse, options, reference, sample, vulkan, Arithmetic};
use pumex::engine::{self, CacheType, Debug, Options};
use pumex::gguf::Gguf;
use pumex::projector::{MediaOptions, MediumFile, Projector, ProjectorSource};
use pumex::quantize::recipe;
use pumex::{model, synthetic};

fn make_model(shape: &str, kind: &str) -> Gguf {
    synthetic::find(shape).unwrap().model(recipe::find(kind).unwrap()).unwrap()
}

/// Weights and MiB of files of the same shapes, types and tensors; those of the small one by hand.
#[test]
fn shapes_have_the_sizes_of_real_files() {
    for (shape, name, params, mib) in [
        ("llama-8b", "llama 8B Q4_K - Medium", 8_030_261_248, 4685.3),
        ("llama-70b", "llama 70B Q4_K - Medium", 70_553_706_496, 40543.1),
        ("qwen3-8b", "qwen3 8B Q4_K - Medium", 8_190_735_360, 4789.7),
        ("qwen3-30b-a3b", "qwen3moe 30B.A3B Q4_K - Medium", 30_532_122_624, 17697.0),
        ("tiny", "llama 68.8M Q4_K - Medium", 2 * 128_256 * 256 + 4 * (3 * 256 * 768 + 3 * 256 * 256) + 9 * 256, 45.1),
    ] {
        let gguf = make_model(shape, "Q4_K_M");
        let info = engine::model_info(&gguf).unwrap();
        assert_eq!((info.description.as_str(), info.n_params), (name, params));
        let found = info.size_bytes as f64 / f64::from(1 << 20);
        assert!((found / mib - 1.0).abs() < 1e-3, "{shape}: {found} MiB");
        let plan = model::plan(&gguf).unwrap();
        assert_eq!(plan.weights.iter().map(|w| w.len_bytes()).sum::<u64>(), info.size_bytes, "{shape}");
    }
}

/// Millions of weights, as published; the text side alone.
#[test]
fn shapes_of_families_have_the_weights_that_are_published() {
    for (shape, millions) in [
        ("mistral-small-24b", 23_572.0),
        ("gemma3-12b", 11_766.0),
        ("phi-4", 14_660.0),
        ("gpt-oss-20b", 20_915.0),
        ("qwen3next-80b-a3b", 79_674.0),
        ("deepseek-v2-lite", 15_706.0),
        ("granite-4-h-small", 32_207.0),
        ("falcon-h1-7b", 7_586.0),
    ] {
        let found = engine::model_info(&make_model(shape, "Q8_0")).unwrap().n_params as f64 / 1e6;
        assert!((found / millions - 1.0).abs() < 2e-3, "{shape}: {found} million weights, expected {millions}");
    }
}

#[test]
fn every_shape_is_a_model_and_every_recipe_finite() {
    for shape in synthetic::SHAPES {
        model::plan(&shape.model(recipe::find("Q8_0").unwrap()).unwrap()).unwrap();
    }
    for recipe in recipe::RECIPES {
        let gguf = synthetic::find("tiny-moe").unwrap().model(recipe).unwrap();
        for tensor in gguf.tensors() {
            let format = pumex_quant::find(tensor.type_id).unwrap();
            let data = gguf.data(tensor);
            assert!(!data.is_empty() && data.len() as u64 <= tensor.len_bytes);
            assert_eq!(format.first_non_finite(data), None, "{} {}", recipe.name, tensor.name);
            let held = data.len() / format.block_bytes * format.block_len;
            let mut x = vec![0f32; held];
            format.decode_row(data, &mut x);
            let spread = x.iter().map(|x| x * x).sum::<f32>() / held as f32;
            let expected = if tensor.dims.len() == 1 { 1.0..=1.0 } else { 1e-4..=8e-4 };
            assert!(expected.contains(&spread), "{} {}: {spread}", recipe.name, tensor.name);
        }
    }
}

/// What is repeated on the device (as a structure of arrays and as blocks) must be what the reference repeats.
#[test]
fn device_and_reference_compute_the_same_of_rows_that_repeat() {
    let models = [("tiny", "Q4_K_M"), ("tiny-moe", "IQ3_XXS"), ("tiny", "Q8_0"), ("tiny", "F16")];
    for &(shape, kind) in sample(&models, 1) {
        let gguf = make_model(shape, kind);
        let ids = [7, 100_000, 65];
        let truth = logits(&mut reference(&gguf), &ids, 3);
        assert!(truth.iter().all(|x| x.is_finite()) && truth.iter().any(|x| x.abs() > 1e-3), "{shape} {kind}");
        let ways = [(Arithmetic::Exact, 1e-6), (Arithmetic::Halves, 2e-5)];
        for (force_staging, (arithmetic, bound)) in [false, true].into_iter().flat_map(|s| ways.map(|way| (s, way))) {
            let options = arithmetic.options(CacheType::F32);
            let debug = Debug { force_staging, ..options.debug };
            let Some(mut runner) = vulkan(&gguf, Options { debug, max_rows: 3, ..options }) else { return };
            if arithmetic.lacking(runner.vk()) {
                continue;
            }
            let error = nmse(&logits(&mut runner, &ids, 3), &truth);
            assert!(error < bound, "{shape} {kind}, {arithmetic:?}: NMSE {error:e}");
            assert_silent(&runner);
        }
    }
}

/// Takes codebooks that devices may hold written out: told to, told not to, and by themselves, where the context is not smaller for
/// it.
#[test]
fn weights_written_out_take_more_memory_and_are_the_same() {
    for kind in sample(&["IQ1_S", "IQ1_M", "IQ3_S"], 1) {
        let shape = synthetic::Shape { n_vocab: 640, ..*synthetic::find("tiny").unwrap() };
        let gguf = shape.model(recipe::find(kind).unwrap()).unwrap();
        let ids = [7, 600, 65];
        let run = |expand_codebooks| {
            let matrices = false; // they round to halves
            let options = Options {
                debug: Debug { expand_codebooks, force_staging: true, matrices, ..exact() },
                max_rows: 3,
                ..options(CacheType::F32)
            };
            let mut runner = vulkan(&gguf, options)?;
            let out = (logits(&mut runner, &ids, 3), logits(&mut runner, &ids, 1), runner.weight_bytes());
            assert_silent(&runner);
            Some(out)
        };
        let (Some(narrow), Some(expand_codebooks), Some(chosen)) = (run(Some(false)), run(Some(true)), run(None))
        else {
            return;
        };
        assert!(expand_codebooks.2 > narrow.2, "{kind}: {} bytes, written out {}", narrow.2, expand_codebooks.2);
        assert_eq!(chosen.2, expand_codebooks.2, "{kind}: there is room");
        for (a, b) in [(&narrow.0, &expand_codebooks.0), (&narrow.1, &expand_codebooks.1)] {
            let error = nmse(b, a);
            assert!(error < 1e-8, "{kind}: NMSE {error:e}");
        }
    }
}

#[test]
fn a_model_without_a_file_is_not_written_to_one() {
    let gguf = make_model("tiny", "Q8_0");
    let options = pumex::quantize::Options::default();
    let plan = pumex::quantize::Plan::new(&gguf, &options).unwrap();
    let target = std::env::temp_dir().join(format!("pumex-synthetic-{}.gguf", std::process::id()));
    let error = pumex::quantize::write(&gguf, &plan, &options, &target, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("token_embd.weight: expected") && !target.exists(), "{error}");
}

/// Millions of weights, as published, and rows that a picture takes of a prompt.
#[test]
fn projectors_have_the_sizes_of_real_files() {
    for (name, millions, rows, width) in [("gemma3", 420.0, 256, 3840), ("qwen2.5vl-7b", 676.5, 1369, 3584)] {
        let shape = synthetic::find_projector(name).unwrap();
        let source = ProjectorSource(shape.model(None));
        let found = source.0.tensors().iter().map(|t| t.elements()).sum::<u64>() as f64 / 1e6;
        assert!((found / millions - 1.0).abs() < 5e-3, "{name}: {found} million weights, expected {millions}");
        let bytes = synthetic::noise(shape.side).into();
        let file = MediumFile { picture: true, bytes, bare: false, max_tokens: None };
        let projector = Projector::of(shape.model(None), MediaOptions::default(), &Options::default()).unwrap();
        let model = pumex_media::TextModel { n_embd: 0, m_rope: false, has_token: &|_| false };
        let pieces = projector.prepare(&file, &model).unwrap();
        let medium = pieces.iter().find_map(|piece| match piece {
            pumex_media::PromptPiece::Medium(medium) => Some(medium),
            _ => None,
        });
        let (medium, clips) = (medium.unwrap(), pumex_media::Clip::all(&source).unwrap());
        // Its graph is made of all tensors, whose shapes are looked at.
        let graph = pumex_media::encode::build(&source, &clips[0], &medium.inputs).unwrap();
        let out = graph.view(graph.out.unwrap());
        assert_eq!((medium.rows, out.rows, out.cols), (rows, rows, width), "{name}");
    }
}
