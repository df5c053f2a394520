//! Encoding: errors against llama.cpp's quantizer on a real model.

use crate::util::{demo_path, shared_folder};
use pumex::gguf::{type_name, Gguf};
use pumex::imatrix::Imatrix;
use pumex::quantize::{recipe, write, Options, Parts, Plan, Report};
use pumex_quant::{find, Format, FormatId, FORMATS};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// A tensor's name, row length and weights.
type TestMatrix = (String, usize, Vec<f32>);

fn matrices(gguf: &Gguf) -> Vec<TestMatrix> {
    let decoded = |t: &pumex::gguf::Tensor| {
        let mut out = vec![0f32; t.elements() as usize];
        find(t.type_id).unwrap().decode_row(gguf.data(t), &mut out);
        (t.name.clone(), t.dims[0] as usize, out)
    };
    gguf.tensors().iter().filter(|t| t.dims.len() == 2).map(decoded).collect()
}

/// Encodes and decodes all rows; squared error and squared signal.
fn loss(format: &Format, (_, cols, x): &TestMatrix, weight: &[f32]) -> (f64, f64) {
    let one = |row: &[f32]| {
        let mut bytes = vec![0; format.row_bytes(row.len()).unwrap()];
        let mut back = vec![0f32; row.len()];
        format.encode_row(row, weight, &mut bytes);
        format.decode_row(&bytes, &mut back);
        let error: f64 = row.iter().zip(&back).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        (error, row.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>())
    };
    x.par_chunks_exact(*cols).map(one).reduce(|| (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
}

#[test]
fn no_format_loses_more_than_llama_cpp_s_quantizer() {
    let Some(shared) = shared_folder() else { return };
    let gguf = Gguf::open(&shared.join("models/llama-draft-f16.gguf")).unwrap();
    let matrices = matrices(&gguf);
    let table = std::fs::read_to_string(shared.join("golden/quantization_error.tsv")).unwrap();
    let mut worse = Vec::new();
    for line in table.lines().filter(|l| !l.starts_with('#') && !l.contains("ERR")) {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells.len() < 5
            || cells[1] == "imx"
                && !cells[2].contains("IQ1")
                && !cells[2].contains("IQ2")
                && !cells[2].contains("IQ3_XXS")
        {
            continue;
        }
        // What llama.cpp kept at a higher type stays at it: `TYPExCOUNT,...`, the embedding first.
        let kinds: Vec<&str> = cells[2].split(',').map(|k| k.rsplit_once('x').unwrap().0).collect();
        let by_name = |name: &str| FORMATS.iter().find(|f| f.name == name).unwrap();
        let (mut error, mut signal) = (0.0, 0.0);
        let begun = std::time::Instant::now();
        for m in &matrices {
            let kind = if m.0 == "token_embd.weight" { kinds[0] } else { kinds[kinds.len() - 1] };
            let (e, s) = loss(by_name(kind), m, &vec![1.0; m.1]);
            (error, signal) = (error + e, signal + s);
        }
        let (found, theirs) = ((error / signal).sqrt(), cells[4].parse::<f64>().unwrap());
        println!(
            "{} {}: {found:.6}, llama.cpp {theirs:.6}, {:.2} s",
            cells[0],
            cells[1],
            begun.elapsed().as_secs_f64()
        );
        if found > theirs {
            worse.push(format!("{} {}: {found:.6} above {theirs:.6}", cells[0], cells[1]));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

/// `golden/recipes.tsv`: the types llama.cpp 0.5.0 chose, as runs in file order.
#[test]
fn recipes_choose_what_llama_cpp_chooses() {
    let Some(shared) = shared_folder() else { return };
    let table = include_str!("golden/recipes.tsv");
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let gguf = Gguf::open(&shared.join("models").join(format!("{}.gguf", cells[0]))).unwrap();
        let imatrix = shared.join("models/llama-draft.imatrix.gguf");
        let options = Options {
            recipe: recipe::find(cells[2]),
            allow_requantize: true,
            imatrix: (cells[1] == "1").then(|| (Imatrix::open(&imatrix).unwrap(), imatrix)),
            ..Options::default()
        };
        let plan = Plan::new(&gguf, &options).unwrap();
        let found: Vec<&str> = plan.jobs().map(|j| type_name(j.entry.type_id)).collect();
        let run = |run: &str| {
            let (name, count) = run.split_once('*').unwrap_or((run, "1"));
            vec![name.to_string(); count.parse().unwrap()]
        };
        let expected: Vec<String> = cells[3].split(' ').flat_map(run).collect();
        assert_eq!(found, expected, "{} {}", cells[0], cells[2]);
    }
}

/// A file of the test's own, gone with it.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> TestFile {
        let folder = std::env::temp_dir().join(format!("pumex-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TestFile(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn quantize(input: &Path, options: &Options, output: &Path) -> Report {
    let gguf = Gguf::open(input).unwrap();
    let plan = Plan::new(&gguf, options).unwrap();
    write(&gguf, &plan, options, output, &mut |_| true).unwrap().unwrap()
}

fn options_to(name: &str) -> Options {
    Options { recipe: recipe::find(name), allow_requantize: true, ..Options::default() }
}

#[test]
fn a_quantized_demo_model_loads_and_says_nearly_the_same() {
    let scratch = TestFile::new("demo");
    let ids: Vec<u32> = (0..40).map(|i| (i * 97 + 5) % 4096).collect();
    let logits_of = |path: &Path| {
        let gguf = Gguf::open(path).unwrap();
        crate::util::logits(&mut crate::util::reference(&gguf), &ids, 64)
    };
    let truth = logits_of(&demo_path());
    for (recipe, bound) in [("F32", 1e-12), ("Q8_0", 2e-4), ("Q6_K", 8e-4), ("Q5_K_M", 1e-3), ("IQ4_XS", 7e-3)] {
        let output = scratch.path("out.gguf");
        let report = quantize(&demo_path(), &options_to(recipe), &output);
        assert_eq!(report.nonfinite, 0);
        let error = crate::util::nmse(&logits_of(&output), &truth);
        println!("{recipe}: NMSE {error:.2e}");
        assert!(error < bound, "{recipe}: {error:e}");
    }
}

#[test]
fn splitting_and_merging_give_the_same_bytes_back() {
    let scratch = TestFile::new("split");
    let split = Options { parts: Parts::Tensors(20), ..Options::default() };
    quantize(&demo_path(), &split, &scratch.path("part.gguf"));
    assert_eq!(scratch.names().len(), 3, "{:?}", scratch.names());
    quantize(&scratch.path("part-00001-of-00003.gguf"), &Options::default(), &scratch.path("whole.gguf"));
    quantize(&demo_path(), &Options::default(), &scratch.path("copy.gguf"));
    let bytes = |name: &str| std::fs::read(scratch.path(name)).unwrap();
    assert_eq!(bytes("whole.gguf"), bytes("copy.gguf"));
    let kept = Options { parts: Parts::Kept, ..options_to("Q8_0") };
    quantize(&scratch.path("part-00001-of-00003.gguf"), &kept, &scratch.path("kept.gguf"));
    assert!(scratch.names().contains(&"kept-00003-of-00003.gguf".to_string()), "{:?}", scratch.names());
}

#[test]
fn an_interrupted_or_failed_run_leaves_the_former_file_and_nothing_else() {
    let scratch = TestFile::new("stop");
    let output = scratch.path("out.gguf");
    std::fs::write(&output, "former").unwrap();
    let gguf = Gguf::open(&demo_path()).unwrap();
    let options = options_to("Q8_0");
    let plan = Plan::new(&gguf, &options).unwrap();
    let stopped = write(&gguf, &plan, &options, &output, &mut |done| done < 100_000).unwrap();
    assert!(stopped.is_none());
    assert_eq!(std::fs::read(&output).unwrap(), b"former");
    assert_eq!(scratch.names(), ["out.gguf"]);
    let nowhere = scratch.path("no folder").join("out.gguf");
    let error = write(&gguf, &plan, &options, &nowhere, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("no folder"), "{error}");
}

#[test]
fn weights_that_are_not_finite_stop_with_the_tensor_s_name_or_are_counted() {
    let scratch = TestFile::new("nan");
    let input = scratch.path("f32.gguf");
    quantize(&demo_path(), &options_to("F32"), &input);
    let mut bytes = std::fs::read(&input).unwrap();
    let (start, name) = {
        let gguf = Gguf::open(&input).unwrap();
        let t = gguf.tensor("blk.1.ffn_up.weight").unwrap();
        (t.place().1 as usize, t.name.clone())
    };
    bytes[start + 400..start + 404].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&input, bytes).unwrap();
    let gguf = Gguf::open(&input).unwrap();
    let options = options_to("Q4_K_S");
    let plan = Plan::new(&gguf, &options).unwrap();
    let error = write(&gguf, &plan, &options, &scratch.path("out.gguf"), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("100"), "{error}");
    let counting = Options { allow_nonfinite: true, ..options_to("Q4_K_S") };
    assert_eq!(quantize(&input, &counting, &scratch.path("out.gguf")).nonfinite, 1);
}

#[test]
fn weights_that_a_type_cannot_hold_stop_with_the_tensor_s_name() {
    let scratch = TestFile::new("large");
    let input = scratch.path("f32.gguf");
    quantize(&demo_path(), &options_to("F32"), &input);
    let mut bytes = std::fs::read(&input).unwrap();
    let start = Gguf::open(&input).unwrap().tensor("blk.1.ffn_up.weight").unwrap().place().1 as usize;
    bytes[start + 400..start + 404].copy_from_slice(&1e9f32.to_le_bytes());
    std::fs::write(&input, bytes).unwrap();
    let gguf = Gguf::open(&input).unwrap();
    for (kind, holds) in [("F16", false), ("Q8_0", false), ("Q4_0", false), ("BF16", true), ("F32", true)] {
        let options = options_to(kind);
        let plan = Plan::new(&gguf, &options).unwrap();
        let done = write(&gguf, &plan, &options, &scratch.path("out.gguf"), &mut |_| true);
        match done {
            Ok(_) => assert!(holds, "{kind}"),
            Err(e) => {
                assert!(!holds && e.to_string().contains("blk.1.ffn_up.weight: expected weights that"), "{kind}: {e}")
            }
        }
    }
}

#[test]
fn options_change_what_they_name() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let types = |options: Options| -> Vec<(String, &'static str)> {
        let plan = Plan::new(&gguf, &options).unwrap();
        plan.jobs().map(|j| (j.entry.name.clone(), type_name(j.entry.type_id))).collect()
    };
    let of = |all: &[(String, &'static str)], name: &str| all.iter().find(|t| t.0 == name).map(|t| t.1);
    let pure = types(Options { pure: true, ..options_to("Q4_K_M") });
    assert!(pure.iter().all(|t| ["Q4_K", "F32"].contains(&t.1)), "{pure:?}");
    let pattern = vec![(regex::Regex::new("attn_k\\.").unwrap(), FormatId::Q8_0)];
    let asked = types(Options { tensor_types: pattern, token_embedding: Some(FormatId::Q5K), ..options_to("Q4_K_M") });
    assert_eq!(of(&asked, "blk.2.attn_k.weight"), Some("Q8_0"));
    assert_eq!(of(&asked, "token_embd.weight"), Some("Q5_K"));
    assert_eq!(of(&asked, "blk.2.attn_norm.weight"), Some("F32"));
    let pruned = types(Options { prune_layers: vec![1], ..options_to("Q4_K_M") });
    assert_eq!(pruned.iter().filter(|t| t.0.ends_with("attn_norm.weight")).count(), 5);
    assert!(of(&pruned, "blk.5.attn_norm.weight").is_none() && of(&pruned, "blk.4.attn_norm.weight").is_some());
    let refused = Options { recipe: recipe::find("Q8_0"), ..Options::default() };
    let error = Plan::new(&gguf, &refused).unwrap_err().to_string();
    assert!(error.contains("--allow-requantize") && error.contains("token_embd.weight"), "{error}");
}

#[test]
fn importance_matrices_of_both_formats_are_read_and_damaged_ones_refused() {
    let mut old: Vec<u8> = Vec::new();
    let word = |out: &mut Vec<u8>, w: u32| out.extend(w.to_le_bytes());
    word(&mut old, 1);
    word(&mut old, 3);
    old.extend(b"a.w");
    word(&mut old, 4);
    word(&mut old, 2);
    [8f32, 2.0].iter().for_each(|x| old.extend(x.to_le_bytes()));
    word(&mut old, 7);
    word(&mut old, 4);
    old.extend(b"text");
    let path = Path::new("old.imatrix");
    let read = Imatrix::from_legacy(&old, path).unwrap();
    assert_eq!(read.entries["a.w"].mean, [2.0, 0.5]);
    assert_eq!((read.chunks, read.datasets), (7, vec!["text".to_string()]));
    for cut in 0..old.len() - 12 {
        let error = Imatrix::from_legacy(&old[..cut], path).unwrap_err().to_string();
        assert!(error.contains("old.imatrix") && error.contains("expected"), "cut at {cut}: {error}");
    }
    for at in 0..old.len() {
        let mut bytes = old.clone();
        bytes[at] = 0xff;
        let _ = Imatrix::from_legacy(&bytes, path); // an answer, whichever
    }
    let error = Imatrix::open(&demo_path()).unwrap_err().to_string();
    assert!(error.contains("general.type"), "{error}");
    let Some(shared) = shared_folder() else { return };
    let real = Imatrix::open(&shared.join("models/llama-draft.imatrix.gguf")).unwrap();
    assert!(real.columns("blk.0.attn_q.weight", 0, 256).unwrap().is_some());
    assert!(real.columns("blk.0.attn_q.weight", 0, 512).is_err());
}

/// Importance of the demo model's matrices over a made-up text, by a runner.
fn collect_imatrix(runner: &mut dyn pumex::step::Runner) -> Imatrix {
    let ids: Vec<u32> = (0..192).map(|i| (i * 97 + 5) % 4096).collect();
    let options = pumex::conversation::PerplexityOptions { n_ctx: 48, bos: Some(0), windows: None };
    let stop = std::sync::atomic::AtomicBool::new(false);
    pumex::conversation::importance(runner, &ids, &options, &stop, &mut |_, _| ()).unwrap()
}

#[test]
fn importance_collected_on_the_device_is_that_of_the_reference_and_survives_its_file() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let truth = collect_imatrix(&mut crate::util::reference(&gguf));
    assert_eq!(truth.entries.len(), 6 * 7, "every matrix of six layers");
    assert!(truth.entries.values().all(|e| e.counts == [192.0]));
    let scratch = TestFile::new("imatrix");
    std::fs::write(scratch.path("im.gguf"), truth.to_gguf(48)).unwrap();
    let back = Imatrix::open(&scratch.path("im.gguf")).unwrap();
    assert_eq!(back.chunks, 4);
    let far = |a: &Imatrix, b: &Imatrix| {
        let pairs = a.entries.iter().zip(&b.entries).flat_map(|((n, a), (m, b))| {
            assert_eq!(n, m);
            a.mean.iter().zip(&b.mean)
        });
        pairs.map(|(a, b)| (a - b).abs() / (a.abs() + 1e-6)).fold(0f32, f32::max)
    };
    assert!(far(&truth, &back) < 1e-5);
    use crate::util::Arithmetic;
    for (arithmetic, bound) in [(Arithmetic::Exact, 1e-3), (Arithmetic::Halves, 2e-2)] {
        let options = arithmetic.options(pumex::engine::CacheType::F32);
        let Some(mut runner) = crate::util::vulkan(&gguf, options) else { return };
        if arithmetic.lacking(runner.vk()) {
            continue;
        }
        let found = collect_imatrix(&mut runner);
        assert!(far(&truth, &found) < bound, "{arithmetic:?}: {}", far(&truth, &found));
        crate::util::assert_silent(&runner);
    }
}

#[test]
fn an_importance_matrix_agrees_with_llama_cpp_s() {
    let Some(shared) = shared_folder() else { return };
    let gguf = Gguf::open(&shared.join("models/llama-draft-f16.gguf")).unwrap();
    let golden = Imatrix::open(&shared.join("models/llama-draft.imatrix.gguf")).unwrap();
    let text = std::fs::read_to_string(shared.join("models/calibration.txt")).unwrap();
    let ids = pumex::text::Tokenizer::from_gguf(&gguf).unwrap().encode(&text[..60_000], true, false).unwrap();
    let options = pumex::conversation::PerplexityOptions { n_ctx: 256, bos: Some(ids[0]), windows: Some(40) };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut runner = crate::util::reference(&gguf);
    let found = pumex::conversation::importance(&mut runner, &ids, &options, &stop, &mut |_, _| ()).unwrap();
    assert_eq!(found.chunks, golden.chunks);
    for (name, entry) in &golden.entries {
        for (a, b) in entry.mean.iter().zip(&found.entries[name].mean) {
            assert!((a - b).abs() <= 0.02 * a.abs(), "{name}: {b}, expected {a}");
        }
    }
}

/// With importance, errors weighted by it must not exceed those of llama.cpp's own files, made with the same matrix.
#[test]
fn weighted_errors_are_below_those_of_llama_cpp_s_files() {
    let Some(shared) = shared_folder() else { return };
    let gguf = Gguf::open(&shared.join("models/llama-draft-f16.gguf")).unwrap();
    let imatrix = Imatrix::open(&shared.join("models/llama-draft.imatrix.gguf")).unwrap();
    for name in ["Q4_0", "Q4_K_S", "Q3_K_S", "Q2_K", "IQ2_XXS", "IQ3_S", "IQ4_XS"] {
        let theirs = Gguf::open(&crate::util::type_model(&shared, name)).unwrap();
        let (mut ours_sum, mut theirs_sum) = (0.0, 0.0);
        for (tensor, cols, x) in matrices(&gguf) {
            let other = theirs.tensor(&tensor).unwrap();
            let Some(weight) = imatrix.columns(&tensor, 0, cols).unwrap() else { continue };
            let format = find(other.type_id).unwrap();
            let mut back = vec![0f32; x.len()];
            format.decode_row(theirs.data(other), &mut back);
            let weighted = |a: &[f32], b: &[f32]| -> f64 {
                let pairs = a.iter().zip(b).enumerate();
                pairs.map(|(i, (a, b))| f64::from(weight[i % cols]) * f64::from(a - b).powi(2)).sum()
            };
            theirs_sum += weighted(&x, &back);
            let mut bytes = vec![0; format.row_bytes(x.len()).unwrap()];
            let (row_in, row_out) = (cols, format.row_bytes(cols).unwrap());
            bytes.par_chunks_mut(row_out).zip(x.par_chunks(row_in)).for_each(|(b, x)| format.encode_row(x, weight, b));
            format.decode_row(&bytes, &mut back);
            ours_sum += weighted(&x, &back);
        }
        println!("{name}: {ours_sum:.3}, llama.cpp {theirs_sum:.3}");
        assert!(ours_sum < theirs_sum, "{name}: {ours_sum}, llama.cpp {theirs_sum}");
    }
}

#[test]
fn divergence_is_zero_from_itself_and_grows_with_coarser_weights() {
    use pumex::conversation::{perplexity_with, Base, BaseWriter, Divergence, PerplexityOptions};
    let scratch = TestFile::new("divergence");
    let ids: Vec<u32> = (0..128).map(|i| (i * 97 + 5) % 4096).collect();
    let options = PerplexityOptions { n_ctx: 32, bos: None, windows: None };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let path = scratch.path("base");
    let mut saved = BaseWriter::create(&path, 32, 4096, 4, &ids).unwrap();
    let gguf = Gguf::open(&demo_path()).unwrap();
    let mut runner = crate::util::reference(&gguf);
    let judge: pumex::conversation::Judge<'_> = &mut |logits, _| saved.rows(logits);
    let truth = perplexity_with(&mut runner, &ids, &options, &stop, &mut |_, _, _| (), judge).unwrap();
    saved.finish().unwrap();
    let compare = |path: &Path| {
        let gguf = Gguf::open(path).unwrap();
        let mut divergence = Divergence::new(Base::open(&scratch.path("base"), 4096).unwrap());
        let judge: pumex::conversation::Judge<'_> = &mut |logits, targets| divergence.rows(logits, targets);
        let mut runner = crate::util::reference(&gguf);
        perplexity_with(&mut runner, &ids, &options, &stop, &mut |_, _, _| (), judge).unwrap();
        divergence.summary().unwrap()
    };
    let same = compare(&demo_path());
    assert_eq!(same.positions, 4 * 15);
    assert!(same.mean.abs() < 1e-3 && same.same_top == 1.0, "{same:?}");
    assert!(same.ppl_base > 1.0 && same.ppl_base < 1.01 * truth.ppl, "{} and {}", same.ppl_base, truth.ppl);
    quantize(&demo_path(), &options_to("Q8_0"), &scratch.path("q8.gguf"));
    quantize(&demo_path(), &options_to("Q2_K"), &scratch.path("q2.gguf"));
    let (fine, coarse) = (compare(&scratch.path("q8.gguf")), compare(&scratch.path("q2.gguf")));
    assert!(fine.mean < 0.1 * coarse.mean && coarse.mean > 1e-2, "{} and {}", fine.mean, coarse.mean);
    let bytes = std::fs::read(&path).unwrap();
    for (cut, what) in [(0, "_logits_"), (10, "_logits_"), (bytes.len() - 1, "bytes")] {
        std::fs::write(scratch.path("cut"), &bytes[..cut]).unwrap();
        let error = Base::open(&scratch.path("cut"), 4096).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(Base::open(&path, 5000).err().unwrap().to_string().contains("vocabulary"));
}

/// llama.cpp's own Python reader, where it is installed, must read what is written.
#[test]
fn the_gguf_reader_of_pypi_reads_quantized_files() {
    let python = |script: &str| std::process::Command::new("python3").args(["-c", script]).output();
    if !python("from gguf import GGUFReader").is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: python3 has no package gguf");
        return;
    }
    let scratch = TestFile::new("pypi");
    for recipe in ["Q4_K_M", "IQ3_XXS"] {
        let path = scratch.path("out.gguf");
        quantize(&demo_path(), &options_to(recipe), &path);
        let script = format!(
            "import gguf\nfor t in gguf.GGUFReader({:?}).tensors: print(t.name, t.tensor_type.name, t.n_bytes)",
            path.display().to_string()
        );
        let out = python(&script).unwrap();
        let found = String::from_utf8(out.stdout).unwrap();
        let gguf = Gguf::open(&path).unwrap();
        let line = |t: &pumex::gguf::Tensor| format!("{} {} {}\n", t.name, type_name(t.type_id), t.len_bytes);
        assert_eq!(found, gguf.tensors().iter().map(line).collect::<String>(), "{recipe}");
    }
}
