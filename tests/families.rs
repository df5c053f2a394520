//! Every family against llama.cpp, in chunks of several lengths, and beside another sequence; the README's table of them.

use crate::seeded::Recipe;
use crate::util::{
    bound, exhaustive, in_turn, logits, nmse, pick, reference, rows, shared_folder, vulkan, Arithmetic, Golden,
};
use pumex::cpu::{Fast, FastSettings, RunnerSizes};
use pumex::engine::{self, CacheType, DeviceChoice, Options};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value};
use pumex::model;
use pumex::policy::ActivationQuant;
use pumex::step::{Runner, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use pumex_quant::FormatId;
use std::path::{Path, PathBuf};

/// Stems of the tiny models of families, beside llama.cpp's logits for them.
fn families(shared: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut stems: Vec<(PathBuf, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(shared.join("golden/archs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let name = path.file_stem().unwrap();
            stems.push((shared.join("models/archs").join(name).with_extension("gguf"), path.with_extension("")));
        }
    }
    stems.sort();
    stems
}

fn check(runner: &mut dyn Runner, golden: &Golden, chunk: usize, bound: f64, what: &str) {
    let all = logits(runner, &golden.tokens, chunk);
    let error = nmse(&pick(&all, golden.vocab, &golden.logit_positions), &golden.logits);
    println!("{what}, chunks of {chunk}: NMSE {error:.2e}");
    assert!(error <= bound, "{what}, chunks of {chunk}: NMSE {error:e}, expected at most {bound:e}");
}

#[test]
fn the_reference_agrees_with_llama_cpp_on_every_family() {
    let Some(shared) = shared_folder() else { return };
    for (file, stem) in families(&shared) {
        let (gguf, golden) = (Gguf::open(&file).unwrap(), Golden::load(&stem));
        let mut runner = reference(&gguf);
        let name = stem.file_name().unwrap().to_string_lossy();
        let bound = bound(&model::plan(&gguf).unwrap(), &name);
        for chunk in [512, 7, 1] {
            check(&mut runner, &golden, chunk, bound, &name);
        }
    }
}

#[test]
fn the_fast_interpreter_agrees_with_llama_cpp_on_every_family() {
    let Some(shared) = shared_folder() else { return };
    for (file, stem) in families(&shared) {
        let (gguf, golden) = (Gguf::open(&file).unwrap(), Golden::load(&stem));
        let name = stem.file_name().unwrap().to_string_lossy();
        let floats = in_floats(&gguf);
        let explained = bound(&model::plan(&floats).unwrap(), &name);
        let mut exact = fast(&floats, Float::F32);
        for chunk in [64, 1] {
            check(&mut exact, &golden, chunk, explained, &name);
        }
        // Codes of activations have 8 bits, keys and values of halves 11.
        check(&mut fast(&gguf, Float::F16), &golden, 1, explained.max(1e-3), &format!("{name}, as it is"));
    }
}

/// The fast interpreter with such keys and values.
fn fast(gguf: &Gguf, float: Float) -> Fast<'_> {
    let of = || Elements::Floats(float);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs: 2, max_rows: 64, cache_positions: None, k: of(), v: of() };
    Fast::new(gguf, model::plan(gguf).unwrap(), sizes, &FastSettings::default()).unwrap()
}

/// The model with each weight as a float, so that activations are floats, too.
fn in_floats(gguf: &Gguf) -> Gguf {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for t in gguf.own_tensors() {
        let (mut bytes, mut type_id) = (gguf.data(t).to_vec(), t.type_id);
        if let Some(format) = pumex_quant::all().find(|format| format.ggml_id == t.type_id) {
            let mut x = vec![0.0; t.dims.iter().product::<u64>() as usize];
            format.decode_row(&bytes, &mut x);
            (bytes, type_id) = (x.iter().flat_map(|x| x.to_le_bytes()).collect(), FormatId::F32.format().ggml_id);
        }
        let len_bytes = bytes.len() as u64;
        entries.push(Entry { name: t.name.clone(), dims: t.dims.clone(), type_id, len_bytes });
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        data.extend(bytes);
    }
    let mut file = header(gguf.meta().iter(), &entries, ALIGNMENT);
    file.extend(data);
    Gguf::from_static("floats", file.leak()).unwrap()
}

/// One of each kind of state: paged, ring, latent, recurrent, both in a model, both in a layer; several for each layer of the file.
fn kinds(shared: &Path) -> Vec<(&'static str, Gguf)> {
    let named = [
        "llama-dense",
        "gemma3-dense",
        "deepseek2-moe",
        "mamba2-dense",
        "qwen3next-moe",
        "falcon-h1-dense",
        "lfm2-dense",
    ];
    let open = |name| (name, Gguf::open(&shared.join("models/archs").join(name).with_extension("gguf")).unwrap());
    let seeded = ["minimax-01", "hrm_text", "graniteswitch"].map(|name| (name, Recipe::recipe_of(name).gguf(name)));
    named.map(open).into_iter().chain(seeded).collect()
}

#[test]
fn families_on_a_device_agree_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    for (i, (file, stem)) in families(&shared).into_iter().enumerate() {
        let name = stem.file_name().unwrap().to_string_lossy().into_owned();
        if !exhaustive() && !["gemma2-dense", "mamba2-dense", "qwen35-dense"].contains(&name.as_str()) {
            continue;
        }
        let (gguf, golden) = (Gguf::open(&file).unwrap(), Golden::load(&stem));
        let Some(mut runner) = vulkan(&gguf, Arithmetic::Exact.options(CacheType::F32)) else { return };
        let chunks = if exhaustive() { &[64, 7, 1][..] } else { &[64, 1] };
        for (_, chunk) in chunks.iter().enumerate().filter(|(j, _)| !exhaustive() || in_turn(i + j, 3)) {
            check(&mut runner, &golden, *chunk, 1e-5, &name);
        }
    }
}

#[test]
fn sequences_beside_each_other_give_what_each_gives_alone() {
    let Some(shared) = shared_folder() else { return };
    for (name, gguf) in kinds(&shared) {
        let mut runner = reference(&gguf);
        let ids: [Vec<u32>; 2] = [(1..40).collect(), (1..40).map(|i| (i * 29 + 3) % 100).collect()];
        let alone = ids.clone().map(|ids| logits(&mut runner, &ids, 512));
        runner.forget(0, 0);
        // Rows of both in turn, in steps of several.
        let mut found = [Vec::new(), Vec::new()];
        for at in (0..39).step_by(13) {
            let part = |seq: usize| rows(seq as u32, at, &ids[seq][at..at + 13]);
            let both = [part(0), part(1)].concat();
            let out = runner.run(&both, Want::Logits).unwrap().logits;
            let half = out.len() / 2;
            found[0].extend_from_slice(&out[..half]);
            found[1].extend_from_slice(&out[half..]);
        }
        for seq in 0..2 {
            let error = nmse(&found[seq], &alone[seq]);
            assert!(error < 1e-10, "{name}, sequence {seq}: NMSE {error:e}");
        }
    }
}

/// Forks of recurrent layers go on as the sequence they come from.
#[test]
fn a_fork_goes_on_as_its_origin() {
    let Some(shared) = shared_folder() else { return };
    for (name, gguf) in kinds(&shared) {
        let mut runner = reference(&gguf);
        runner.run(&rows(0, 0, &[5, 9, 77, 31, 8]), Want::Logits).unwrap();
        runner.fork(0, 1, 5).unwrap();
        let [own, fork] = [0, 1].map(|seq| runner.run(&rows(seq, 5, &[3, 4]), Want::Logits).unwrap().logits);
        assert!(nmse(&fork, &own) < 1e-12, "{name}");
    }
}

/// In every row, where llama.cpp does it to a step's first one.
#[test]
fn chameleon_never_says_pictures() {
    let gguf = Recipe::recipe_of("chameleon").gguf("chameleon");
    let mut runner = reference(&gguf);
    let out = runner.run(&rows(0, 0, &[5, 9, 77]), Want::Logits).unwrap().logits;
    for row in out.chunks_exact(runner.n_vocab()) {
        assert!(row[4..8196].iter().all(|x| *x == f32::MIN));
        assert!(row[..4].iter().chain(&row[8196..]).all(|x| x.abs() < 1e3));
    }
}

/// `docs/architectures.md` has a row of each.
#[test]
fn the_readme_says_how_many_architectures_there_are() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let line = format!("| Architectures | {}: [the list](docs/architectures.md)", model::arch::ARCHS.len());
    assert!(readme.contains(&line), "README.md: expected the line\n{line}");
}

#[test]
fn an_unknown_architecture_is_told_with_the_known_ones() {
    let meta = vec![("general.architecture".to_string(), Value::Str(b"nonesuch".to_vec()))];
    let gguf = Gguf::without_file(Path::new("made.gguf"), meta, Vec::new(), Vec::new());
    let error = model::plan(&gguf).unwrap_err().to_string();
    assert!(error.contains("nonesuch") && error.contains("qwen3next"), "{error}");
}

/// A file with these keys and nothing else.
fn with_keys(arch: &str, keys: &[(&str, u32)]) -> Gguf {
    let usual = [("block_count", 2), ("embedding_length", 256), ("feed_forward_length", 384), ("context_length", 256)];
    let heads = [("attention.head_count", 2)];
    let all = usual.iter().chain(&heads).filter(|(key, _)| keys.iter().all(|(own, _)| own != key)).chain(keys);
    let mut meta = vec![("general.architecture".to_string(), Value::Str(arch.as_bytes().to_vec()))];
    meta.extend(all.map(|(key, value)| (format!("{arch}.{key}"), Value::U32(*value))));
    Gguf::without_file(Path::new("made.gguf"), meta, Vec::new(), Vec::new())
}

/// A family, keys of a bad file, and what the error names.
type Bad = (&'static str, &'static [(&'static str, u32)], &'static [&'static str]);

#[test]
fn bad_hyper_parameters_are_named_with_expected_and_found() {
    let ssm: &[(&str, u32)] = &[("ssm.conv_kernel", 4), ("ssm.inner_size", 512), ("ssm.time_step_rank", 2)];
    let mla: &[(&str, u32)] =
        &[("attention.kv_lora_rank", 64), ("attention.key_length_mla", 96), ("rope.dimension_count", 32)];
    let with = |more: &[(&'static str, u32)]| -> &'static [(&'static str, u32)] { [mla, more].concat().leak() };
    let blocks = |more: &[(&'static str, u32)]| -> &'static [(&'static str, u32)] {
        let usual =
            [("attention.compress_ratios", 4), ("attention.indexer.head_count", 4), ("attention.indexer.top_k", 64)];
        [&usual[..], &[("attention.indexer.key_length", 128)], more].concat().leak()
    };
    // With `more` in place of the usual ones.
    let replaced = |usual: &[(&'static str, u32)], more: &[(&'static str, u32)]| -> &'static [(&'static str, u32)] {
        let kept = usual.iter().filter(|(key, _)| more.iter().all(|(own, _)| own != key));
        kept.chain(more).copied().collect::<Vec<_>>().leak()
    };
    let pooled = |more: &[(&'static str, u32)]| {
        let latent = [("attention.kv_lora_rank", 64), ("attention.key_length_mla", 96), ("rope.dimension_count", 0)];
        let others = [("ssm.conv_kernel", 4), ("kda.head_dim", 64), ("attention.indexer.top_k", 64)];
        let index = [
            ("attention.indexer.head_count", 4),
            ("attention.indexer.key_length", 128),
            ("attention.indexer.kpool", 4),
        ];
        replaced(&[&latent[..], &others, &index].concat(), more)
    };
    let delta = |more: &[(&'static str, u32)]| {
        let state = [("ssm.conv_kernel", 4), ("ssm.inner_size", 256), ("ssm.state_size", 128)];
        let others = [("ssm.time_step_rank", 2), ("ssm.group_count", 2)];
        replaced(&[&state[..], &others].concat(), more)
    };
    let cases: Vec<Bad> = vec![
        ("minimax-m3", &[], &["minimax-m3.attention.indexer.top_k"]),
        ("minimax-01", &[], &["minimax-01.residual_scale"]),
        ("grovemoe", &[], &["grovemoe.expert_count"]),
        (
            "grovemoe",
            &[("expert_count", 8), ("expert_used_count", 2), ("experts_per_group", 3)],
            &["experts_per_group", "divisor", "found 3"],
        ),
        ("chameleon", &[("swin_norm", 1)], &["chameleon.swin_norm"]),
        ("hrm_text", &[], &["hrm_text.hrm.layers_per_stack"]),
        (
            "hrm_text",
            &[("hrm.layers_per_stack", 1), ("hrm.h_cycles", 2), ("hrm.l_cycles", 2)],
            &["block_count", "expected 6", "found 2"],
        ),
        ("gemma-embedding", &[], &["gemma-embedding.attention.sliding_window"]),
        ("gemma3n", &[("attention.sliding_window", 0)], &["gemma3n.attention.sliding_window", "1 to", "found 0"]),
        ("gemma4", &[], &["gemma4.attention.sliding_window_pattern", "2 flags", "found none"]),
        ("cohere2", &[], &["cohere2.attention.sliding_window"]),
        ("gpt-oss", &[("attention.sliding_window", 0)], &["gpt-oss.attention.sliding_window", "1 to", "found 0"]),
        ("step35", &[], &["step35.attention.sliding_window"]),
        ("t5encoder", &[("attention.relative_buckets_count", 2)], &["relative_buckets_count", "4 to", "found 2"]),
        ("t5encoder", &[("attention.relative_buckets_count", 32), ("attention.head_count_kv", 1)], &["head_count"]),
        ("nomic-bert-moe", &[("moe_every_n_layers", 5000)], &["moe_every_n_layers", "found 5000"]),
        (
            "qwen2",
            &[("attention.head_count", 5), ("attention.head_count_kv", 2)],
            &["head_count_kv", "divisor", "found 2"],
        ),
        ("mamba2", ssm, &["mamba2.ssm.state_size"]),
        ("mamba", &[("ssm.conv_kernel", 1)], &["mamba.ssm.conv_kernel", "2 to 64", "found 1"]),
        ("lfm2", &[], &["lfm2.shortconv.l_cache"]),
        ("deepseek2", &[], &["deepseek2.attention.kv_lora_rank"]),
        ("qwen3moe", &[("expert_count", 4), ("expert_used_count", 8)], &["expert_used_count", "at most", "found 8"]),
        ("gpt-oss", &[("expert_count", 4)], &["expert_used_count", "found 0"]),
        ("llama", &[("attention.key_length", 4096)], &["attention.key_length", "found 4096"]),
        ("bailingmoe2", &[("expert_count", 8), ("expert_used_count", 2), ("expert_group_count", 3)], &["expert_group"]),
        ("bailingmoe3", mla, &["bailingmoe3.ssm.conv_kernel"]),
        (
            "bailingmoe3",
            with(&[("ssm.conv_kernel", 4), ("kda.head_dim", 4096)]),
            &["bailingmoe3.kda.head_dim", "1 to 512", "found 4096"],
        ),
        (
            "kimi-k3",
            with(&[("ssm.conv_kernel", 4), ("kda.head_dim", 64), ("attn_res.block_size", 5000)]),
            &["kimi-k3.activation.situ_beta"],
        ),
        ("glm5-next", mla, &["glm5-next.rope.dimension_count", "expected 0", "found 32"]),
        ("glm5-next", pooled(&[("attention.indexer.top_k", 0)]), &["glm5-next.attention.indexer.top_k", "found 0"]),
        ("glm5-next", pooled(&[("hyper_connection.count", 2)]), &["glm5-next.hyper_connection.count", "found 2"]),
        ("glm5-next", pooled(&[("kda.head_dim", 0)]), &["glm5-next.kda.head_dim", "1 to 512", "found 0"]),
        (
            "glm5-next",
            pooled(&[("expert_count", 4), ("expert_used_count", 6)]),
            &["glm5-next.expert_used_count", "at most expert_count 4", "found 6"],
        ),
        ("qwen4exp", delta(&[("ple.layers", 1)]), &["qwen4exp.ple.layers", "not supported"]),
        ("qwen4exp", delta(&[]), &["qwen4exp.hyper_connection.count"]),
        ("qwen4exp", delta(&[("hyper_connection.count", 1)]), &["hyper_connection.count", "2 to", "found 1"]),
        ("qwen4exp", delta(&[("hyper_connection.count", 4)]), &["qwen4exp.hyper_connection.low_rank"]),
        ("qwen4exp", delta(&[("ssm.inner_size", 640)]), &["qwen4exp.ssm.inner_size", "256", "found 640"]),
        ("qwen4exp", &[], &["qwen4exp.ssm.conv_kernel"]),
        ("graniteswitch", &[], &["graniteswitch.adapters.count"]),
        ("graniteswitch", &[("adapters.count", 5000)], &["adapters.count", "0 to 4096", "found 5000"]),
        ("graniteswitch", &[("adapters.count", 2)], &["graniteswitch.adapters.token_ids_activate"]),
        ("gptj", &[("rope.dimension_count", 33)], &["gptj.rope.dimension_count", "even", "found 33"]),
        ("dots3note", mla, &["dots3note.attention.kv_lora_rank_swa"]),
        ("dots3note", with(&[("attention.kv_lora_rank_swa", 600)]), &["kv_lora_rank_swa", "8 to 544", "found 600"]),
        ("hy_v4", mla, &["hy_v4.hyper_connection.epsilon"]),
        ("deepseek4", &[], &["deepseek4.attention.compress_ratios"]),
        ("deepseek4", &[("attention.compress_ratios", 8)], &["compress_ratios", "0, 4 or 128", "found 8"]),
        ("deepseek4", &[("attention.compress_ratios", 4)], &["deepseek4.attention.indexer.head_count"]),
        (
            "deepseek4",
            blocks(&[("attention.output_group_count", 3)]),
            &["output_group_count", "divisor of head_count 2", "found 3"],
        ),
    ];
    for (arch, keys, named) in cases {
        let error = model::plan(&with_keys(arch, keys)).unwrap_err().to_string();
        assert!(named.iter().all(|n| error.contains(n)), "{arch}: {error}");
    }
}

/// Files of four-bit floats say what activations were scaled by, which those here are not.
#[test]
fn scales_of_activations_are_no_unknown_tensors() {
    let mut recipe = Recipe::recipe_of("nemotron_h_moe");
    let names = ["output", "blk.0.ssm_in", "blk.0.ssm_out", "blk.2.attn_q", "blk.2.attn_output", "blk.3.ffn_up_shexp"];
    for name in names {
        recipe.tensors.insert(format!("{name}.input_scale"), vec![1]);
    }
    recipe.tensors.insert("blk.3.ffn_down_exps.input_scale".into(), vec![4]);
    model::plan(&recipe.gguf("made")).unwrap();
}

#[test]
fn adapters_of_ids_that_are_not_there_are_told() {
    let mut recipe = Recipe::recipe_of("graniteswitch");
    recipe.keys.insert("adapters.token_ids_substitute".into(), serde_json::json!([7, 128, 9]));
    recipe.tensors.insert("blk.1.ffn_up.lora_b".into(), vec![32, 384, 3]);
    let error = model::plan(&recipe.gguf("made")).unwrap_err().to_string();
    let named = ["token_ids_substitute", "below 128", "found 128", "blk.1.ffn_up.lora_b", "[32, 384, 4]"];
    assert!(named.iter().all(|n| error.contains(n)), "{error}");
}

#[test]
fn a_layer_of_experts_that_uses_none_is_told() {
    let mut recipe = Recipe::recipe_of("nemotron_h_moe");
    recipe.keys.insert("expert_used_count".into(), serde_json::json!([0, 0, 0, 3]));
    let error = model::plan(&recipe.gguf("made")).unwrap_err().to_string();
    assert!(["blk.1.ffn_gate_inp.weight", "expert_used_count", "found 0"].iter().all(|n| error.contains(n)), "{error}");
}

#[test]
fn an_unknown_rope_scaling_is_named_with_the_known_ones() {
    let mut meta = vec![("general.architecture".to_string(), Value::Str(b"llama".to_vec()))];
    let keys = [("block_count", 2), ("embedding_length", 256), ("feed_forward_length", 384), ("context_length", 256)];
    meta.extend(keys.iter().map(|(key, value)| (format!("llama.{key}"), Value::U32(*value))));
    meta.push(("llama.attention.head_count".into(), Value::U32(2)));
    meta.push(("llama.rope.scaling.type".into(), Value::Str(b"bent".to_vec())));
    let gguf = Gguf::without_file(Path::new("made.gguf"), meta, Vec::new(), Vec::new());
    let error = model::plan(&gguf).unwrap_err().to_string();
    assert!(["rope.scaling.type", "yarn", "bent"].iter().all(|n| error.contains(n)), "{error}");
}

/// In floats, as `--activations q16` has it, however long the steps are.
#[test]
fn the_cpu_in_floats_agrees_with_llama_cpp_on_every_family() {
    let Some(shared) = shared_folder() else { return };
    let mut wrong = Vec::new();
    let all = families(&shared);
    assert_eq!(all.len(), 54);
    for (file, stem) in all {
        let (gguf, golden) = (Gguf::open(&file).unwrap(), Golden::load(&stem));
        let name = stem.file_name().unwrap().to_string_lossy().into_owned();
        let options = Options {
            device: DeviceChoice::Cpu,
            n_ctx: Some(512),
            activations: Some(ActivationQuant::Q16),
            cache_type_k: Some(CacheType::F32),
            cache_type_v: Some(CacheType::F32),
            ..Options::default()
        };
        let mut runner = match engine::load(&gguf, &options, &mut |_, _| ()) {
            Ok(runner) => runner,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        for chunk in [512, 7, 1] {
            let found = pick(&logits(&mut *runner, &golden.tokens, chunk), golden.vocab, &golden.logit_positions);
            let error = nmse(&found, &golden.logits);
            if error > 1e-5 {
                wrong.push(format!("{name}, chunks of {chunk}: NMSE {error:.2e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Blocks of positions are not chosen there: a row that would not see all of them is refused.
#[test]
fn minimax_m3_sees_all_positions_or_refuses_more() {
    let mut recipe = Recipe::recipe_of("minimax-m3");
    for (key, value) in [("top_k", 3), ("block_size", 8)] {
        recipe.keys.insert(format!("attention.indexer.{key}"), value.into());
    }
    let gguf = recipe.gguf("few-blocks");
    let mut runner = reference(&gguf);
    assert_eq!(recipe.ids.len(), 3 * 8);
    assert!(runner.run(&rows(0, 0, &recipe.ids), Want::Ids).is_ok(), "three blocks are all seen");
    let refused = runner.run(&rows(0, 24, &[1]), Want::Ids).err().unwrap().to_string();
    assert!(refused.contains("expected below attention.indexer.top_k") && refused.contains("found 24"), "{refused}");
}
