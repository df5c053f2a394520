//! LoRA adapters and control vectors: what a model gives with them beside what one gives whose weights have them added.

use crate::seeded::{families, noise, recipes, Recipe};
use crate::util::{demo_path, device, exhaustive, logits, nmse, options, rows, vulkan};
use pumex::adapter::{self, Deltas, Layers, Lora};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Offload, Options};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value};
use pumex::model;
use pumex::plan::{Op, Plan};
use pumex::quantize;
use pumex::step::{Runner, Token, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use pumex_quant::FormatId;
use std::collections::BTreeSet;
use std::path::PathBuf;

const ROWS: usize = 256;
/// Rank and alpha of adapters.
const RANK: usize = 3;
const ALPHA: f32 = 1.5;

/// A file of F32 tensors.
fn file(meta: &[(&str, Value)], tensors: &[(String, Vec<u64>, Vec<f32>)]) -> Vec<u8> {
    let entry = |(name, dims, x): &(String, Vec<u64>, Vec<f32>)| Entry {
        name: name.clone(),
        dims: dims.clone(),
        type_id: 0,
        len_bytes: 4 * x.len() as u64,
    };
    let entries: Vec<Entry> = tensors.iter().map(entry).collect();
    let mut bytes = header(meta.iter().map(|(key, value)| (*key, value)), &entries, ALIGNMENT);
    for (_, _, x) in tensors {
        bytes.extend(x.iter().flat_map(|x| x.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    bytes
}

fn text(s: &str) -> Value {
    Value::Str(s.as_bytes().to_vec())
}

fn open_bytes(name: &str, bytes: Vec<u8>) -> Gguf {
    Gguf::from_static(name, bytes.leak()).unwrap()
}

fn meta_of_adapter(arch: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("general.type", text("adapter")),
        ("general.architecture", text(arch)),
        ("adapter.type", text("lora")),
        ("adapter.lora.alpha", Value::F32(ALPHA)),
    ]
}

/// The pair of a tensor of those dimensions, as files have it.
fn pair(name: &str, dims: &[u64], rank: usize, seed: &str) -> [(String, Vec<u64>, Vec<f32>); 2] {
    let (cols, rows, r) = (dims[0], dims[1], rank as u64);
    let count = dims.get(2).copied().unwrap_or(1);
    let (mut a, mut b) = (vec![cols, r], vec![r, rows]);
    if name.ends_with("token_embd.weight") {
        (a, b) = (vec![r, rows], vec![r, cols]);
    }
    if dims.len() > 2 {
        a.push(count);
        b.push(count);
    }
    let size = (0.5 / cols as f32).sqrt();
    let made = |end: &str, dims: Vec<u64>, size: f32| {
        let (name, len) = (format!("{name}.lora_{end}"), dims.iter().product::<u64>() as usize);
        let x = noise(&format!("{seed}{name}"), len).map(|x| size * x).collect();
        (name, dims, x)
    };
    [made("a", a, size), made("b", b, 0.5)]
}

/// Matrices that products of low rank can stand beside, but those of adapters that a model has of its own.
fn adaptable(gguf: &Gguf, plan: &Plan) -> Vec<(String, Vec<u64>)> {
    let sites = plan.ops.iter().flat_map(Op::sites);
    let names: BTreeSet<String> = sites.flat_map(|s| s.parts).map(|(w, _)| plan.weights[w.0].name.clone()).collect();
    let tensor = |name: String| {
        let dims = gguf.tensor(&name).unwrap().dims.clone();
        (dims.len() > 1).then_some((name, dims))
    };
    names.into_iter().filter(|name| name.ends_with(".weight")).filter_map(tensor).collect()
}

#[test]
fn adapters_of_a_model_s_own_adapters_are_refused() {
    let recipe = recipes().into_iter().find(|(name, _)| *name == "graniteswitch").unwrap().1;
    let mut gguf = recipe.gguf("graniteswitch");
    let name = "blk.0.attn_q.lora_a";
    let dims = gguf.tensor(name).unwrap().dims.clone();
    let tensors = pair(name, &dims, RANK, "");
    let lora = Lora::of(open_bytes("nested", file(&meta_of_adapter("graniteswitch"), &tensors))).unwrap();
    let error = adapter::attach(&mut gguf, &[(lora, 1.0)], &[], Layers::default()).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("of its own"), "{error}");
}

/// An adapter of every matrix for which `takes` holds.
pub fn adapter_of(gguf: &Gguf, seed: &str, takes: impl Fn(&str) -> bool) -> Lora {
    let all = adaptable(gguf, &model::plan(gguf).unwrap());
    let tensors: Vec<_> =
        all.iter().filter(|(name, _)| takes(name)).flat_map(|(name, dims)| pair(name, dims, RANK, seed)).collect();
    assert!(!tensors.is_empty());
    let name = if seed.is_empty() { "adapter" } else { seed };
    Lora::of(open_bytes(name, file(&meta_of_adapter(gguf.meta().arch().unwrap()), &tensors))).unwrap()
}

/// A file of an adapter of the demo model, in a folder for the time of a test.
pub fn adapter_file(name: &str) -> PathBuf {
    let base = Gguf::open(&demo_path()).unwrap();
    let all = adaptable(&base, &model::plan(&base).unwrap());
    let tensors: Vec<_> = all.iter().flat_map(|(name, dims)| pair(name, dims, RANK, "")).collect();
    let path = std::env::temp_dir().join(format!("pumex-{}-{name}-adapter.gguf", std::process::id()));
    std::fs::write(&path, file(&meta_of_adapter(base.meta().arch().unwrap()), &tensors)).unwrap();
    path
}

/// The model with the adapters' products added to its weights, one by one.
fn merge_loras(gguf: &Gguf, loras: &[(Lora, f32)]) -> Gguf {
    let own = |t: &pumex::gguf::Tensor| -> Vec<f32> {
        gguf.data(t).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let mut bytes = header(
        gguf.meta().iter(),
        &gguf
            .own_tensors()
            .iter()
            .map(|t| Entry { name: t.name.clone(), dims: t.dims.clone(), type_id: t.type_id, len_bytes: t.len_bytes })
            .collect::<Vec<_>>(),
        ALIGNMENT,
    );
    for t in gguf.own_tensors() {
        let mut x = own(t);
        for (lora, scale) in loras.iter().filter(|(lora, _)| lora.names().any(|name| name == t.name)) {
            let seed = lora.path().display().to_string();
            let [(_, _, a), (_, _, b)] = pair(&t.name, &t.dims, RANK, if seed == "adapter" { "" } else { "other" });
            let (cols, rows) = (t.dims[0] as usize, t.dims[1] as usize);
            let by = scale * ALPHA / RANK as f32;
            // What a product is multiplied with besides is none of the adapter's, as in llama.cpp.
            let factors = gguf.tensor(&t.name.replace(".weight", ".scale")).map_or(vec![1.0], own);
            for (i, x) in x.iter_mut().enumerate() {
                let (of, row, col) = (i / (rows * cols), i / cols % rows, i % cols);
                let product = |r: usize| match t.name.ends_with("token_embd.weight") {
                    true => a[row * RANK + r] * b[col * RANK + r],
                    false => b[(of * rows + row) * RANK + r] * a[(of * RANK + r) * cols + col],
                };
                let factor = factors.get(of).unwrap_or(&factors[0]);
                *x += by * (0..RANK).map(product).sum::<f32>() / factor;
            }
        }
        bytes.extend(x.iter().flat_map(|x| x.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    open_bytes("merged", bytes)
}

fn reference(gguf: &Gguf) -> Reference<'_> {
    Reference::new(gguf, model::plan(gguf).unwrap(), ROWS, 2, ROWS)
}

fn with(mut gguf: Gguf, loras: &[(Lora, f32)]) -> Gguf {
    adapter::attach(&mut gguf, loras, &[], Layers::default()).unwrap();
    gguf
}

fn few(recipe: &Recipe) -> &[u32] {
    &recipe.ids[..recipe.ids.len().min(24)]
}

#[test]
fn every_family_gives_with_an_adapter_what_it_gives_with_that_in_its_weights() {
    for (name, recipe) in families() {
        let base = recipe.gguf(name);
        let loras = [(adapter_of(&base, "", |_| true), 0.8)];
        let truth = logits(&mut reference(&merge_loras(&base, &loras)), few(&recipe), ROWS);
        let plain = logits(&mut reference(&base), few(&recipe), ROWS);
        let found = logits(&mut reference(&with(base, &loras)), few(&recipe), ROWS);
        let (error, change) = (nmse(&found, &truth), nmse(&plain, &truth));
        println!("{name}: NMSE {error:.2e}, of a change of {change:.2e}");
        // Rounding grows by every layer.
        let most = if name.ends_with("-deep") { 1e-8 } else { 1e-10 };
        assert!(error < most && change > 100.0 * error, "{name}: NMSE {error:e}, of a change of {change:e}");
    }
}

#[test]
fn the_cpu_and_a_device_give_with_an_adapter_what_the_reference_gives() {
    let full = || Elements::Floats(Float::F32);
    let sizes = RunnerSizes { n_ctx: ROWS, n_seqs: 2, max_rows: ROWS, cache_positions: None, k: full(), v: full() };
    let usual = ["qwen3", "qwen3moe", "gemma3", "mamba2"];
    // Products are the same in all families: a fifth of them says enough.
    let some = families()
        .into_iter()
        .enumerate()
        .filter(|(at, (name, _))| exhaustive() && at % 5 == 0 || usual.contains(name));
    for (_, (name, recipe)) in some {
        let base = recipe.gguf(name);
        let loras = [(adapter_of(&base, "", |_| true), 1.0)];
        let gguf = with(base, &loras);
        let truth = logits(&mut reference(&gguf), few(&recipe), ROWS);
        let mut fast = Fast::new(&gguf, model::plan(&gguf).unwrap(), sizes, &FastSettings::default()).unwrap();
        let error = nmse(&logits(&mut fast, few(&recipe), ROWS), &truth);
        println!("{name} on the CPU: NMSE {error:.2e}");
        assert!(error < 1e-8, "{name} on the CPU: NMSE {error:e}");
        if !exhaustive() && !["qwen3", "qwen3moe"].contains(&name) {
            continue;
        }
        let options = Options { n_ctx: Some(ROWS as u32), max_rows: ROWS as u32, ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, options) else { continue };
        let chunks = if model::plan(&gguf).unwrap().looks_ahead() { &[ROWS][..] } else { &[ROWS, 1] };
        for chunk in chunks {
            let error = nmse(&logits(&mut runner, few(&recipe), *chunk), &truth);
            println!("{name}, chunks of {chunk}: NMSE {error:.2e}");
            assert!(error < 1e-8, "{name}, chunks of {chunk}: NMSE {error:e}");
        }
    }
}

/// The model with matrices in a format, where its blocks divide their rows; or those of that decoded again.
fn encode_matrices(gguf: &Gguf, format: FormatId, decoded: bool) -> Gguf {
    let (format, floats) = (format.format(), FormatId::F32.format());
    let coded = |t: &pumex::gguf::Tensor| {
        t.dims.len() > 1 && t.dims[0].is_multiple_of(format.block_len as u64) && t.type_id == 0
    };
    let (mut entries, mut all) = (Vec::new(), Vec::new());
    for t in gguf.own_tensors() {
        let mut bytes = gguf.data(t).to_vec();
        let mut type_id = t.type_id;
        if coded(t) {
            let mut x = vec![0.0; bytes.len() / 4];
            floats.decode_row(&bytes, &mut x);
            let mut out = vec![0; format.row_bytes(x.len()).unwrap()];
            format.encode_row(&x, &vec![1.0; x.len()], &mut out);
            if decoded {
                format.decode_row(&out, &mut x);
                bytes = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            } else {
                (bytes, type_id) = (out, format.ggml_id);
            }
        }
        entries.push(Entry { name: t.name.clone(), dims: t.dims.clone(), type_id, len_bytes: bytes.len() as u64 });
        all.push(bytes);
    }
    let mut out = header(gguf.meta().iter(), &entries, ALIGNMENT);
    for bytes in all {
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    open_bytes("coded", out)
}

#[test]
fn adapters_are_added_to_weights_of_every_format() {
    let recipe = Recipe::recipe_of("qwen3");
    let base = recipe.gguf("qwen3");
    let least = base.own_tensors().iter().filter(|t| t.dims.len() > 1).map(|t| t.dims[0]).min().unwrap();
    let mut count = 0;
    for format in pumex_quant::FORMATS.iter().filter(|f| f.name != "Q8_K" && least.is_multiple_of(f.block_len as u64)) {
        let loras = [(adapter_of(&base, "", |_| true), 1.0)];
        let truth =
            logits(&mut reference(&merge_loras(&encode_matrices(&base, format.id, true), &loras)), few(&recipe), ROWS);
        let gguf = with(encode_matrices(&base, format.id, false), &loras);
        let error = nmse(&logits(&mut reference(&gguf), few(&recipe), ROWS), &truth);
        assert!(error < 1e-10, "{}: NMSE {error:e}", format.name);
        count += 1;
    }
    assert!(count >= 5, "{count} formats");
}

#[test]
fn several_adapters_add_up_and_scale_zero_adds_nothing() {
    for name in ["qwen3", "qwen3moe"] {
        let recipe = Recipe::recipe_of(name);
        let base = recipe.gguf(name);
        let other = adapter_of(&base, "other", |name| !name.contains("attn_k"));
        let loras = [(adapter_of(&base, "", |_| true), 0.8), (other, -0.5)];
        let truth = logits(&mut reference(&merge_loras(&base, &loras)), few(&recipe), ROWS);
        let error = nmse(&logits(&mut reference(&with(base, &loras)), few(&recipe), ROWS), &truth);
        assert!(error < 1e-10, "{name}: NMSE {error:e}");
        let base = recipe.gguf(name);
        let loras = [(adapter_of(&base, "", |_| true), 0.0)];
        let gguf = with(base, &loras);
        assert_eq!(gguf.tensors().len(), gguf.own_tensors().len());
    }
}

#[test]
fn adapters_lie_where_their_layers_lie() {
    let recipe = Recipe::recipe_of("qwen3");
    let base = recipe.gguf("qwen3");
    let loras = [(adapter_of(&base, "", |_| true), 1.0)];
    let gguf = with(base, &loras);
    let plan = model::plan(&gguf).unwrap();
    let truth = logits(&mut reference(&gguf), few(&recipe), ROWS);
    for layer in 1..plan.layers.len() {
        let (first, second) = plan.split(layer, 64).unwrap();
        let has = |plan: &Plan, layer: usize| {
            let start = format!("blk.{layer}.");
            plan.weights.iter().any(|w| w.name.starts_with(&start) && w.name.ends_with(".lora_a"))
        };
        assert!(has(&first, layer - 1) && !has(&first, layer) && has(&second, layer) && !has(&second, layer - 1));
        if layer > 1 && !exhaustive() {
            continue;
        }
        let Some(device) = device(false) else { return };
        let way = Options { n_ctx: Some(ROWS as u32), activations: None, ..options(CacheType::F32) };
        let mut runner = Offload::new(&gguf, &plan, device, plan.layers.len() - layer, &way, &mut |_, _| ()).unwrap();
        let error = nmse(&logits(&mut runner, few(&recipe), 24), &truth);
        assert!(error < 3e-4, "cut at {layer}: NMSE {error:e}");
    }
}

/// A file of control vectors for layers, in a folder for the time of the test.
fn control_file(name: &str, layers: &[usize], width: usize) -> (PathBuf, Vec<Vec<f32>>) {
    let path = std::env::temp_dir().join(format!("pumex-{}-{name}.gguf", std::process::id()));
    let x: Vec<Vec<f32>> = layers.iter().map(|i| noise(&format!("{name}{i}"), width).collect()).collect();
    let tensor = |(i, x): (&usize, &Vec<f32>)| (format!("direction.{i}"), vec![width as u64], x.clone());
    let tensors: Vec<_> = layers.iter().zip(&x).map(tensor).collect();
    std::fs::write(&path, file(&[("general.architecture", text("controlvector"))], &tensors)).unwrap();
    (path, x)
}

#[test]
fn layers_add_control_vectors_when_they_end() {
    let recipe = Recipe::recipe_of("qwen3");
    let base = recipe.gguf("qwen3");
    let plan = model::plan(&base).unwrap();
    let (layers, ids) = (plan.layers.len(), few(&recipe).to_vec());
    assert!(layers > 1);
    let width = plan.values[plan.layer_ends[0].1 .0].width;
    let ((one, x), (two, y)) =
        (control_file("one", &[layers - 1, layers + 3], width), control_file("two", &[layers - 1], width));
    let files = [(one.clone(), 0.5), (two.clone(), -2.0)];
    let run = |files: &[(PathBuf, f32)], range: Layers| {
        let mut gguf = recipe.gguf("qwen3");
        adapter::attach(&mut gguf, &[], files, range).unwrap();
        logits(&mut reference(&gguf), &ids, ROWS)
    };
    let found = run(&files, Layers::default());
    // By hand: what the last layer gave before the vectors, of a plan that ends there.
    let by_hand = recipe.gguf("qwen3");
    let last = plan.layer_ends[layers - 1];
    let mut head = plan.clone();
    head.ops.drain(..last.0);
    let norm = |plan: &Plan| plan.ops.iter().filter(|op| matches!(op, Op::MatMul { .. })).count();
    assert_eq!(norm(&head), 1, "after the last layer there is one product");
    let mut cut = model::plan(&by_hand).unwrap();
    let at = cut.ops.len() - head.ops.len();
    cut.ops.truncate(at);
    cut.ops.push(Op::Sample { logits: last.1 });
    (cut.logits, cut.n_vocab) = (last.1, width);
    let mut stream = logits(&mut Reference::new(&by_hand, cut, ROWS, 2, ROWS), &ids, ROWS);
    for row in stream.chunks_exact_mut(width) {
        for (i, v) in row.iter_mut().enumerate() {
            *v += 0.5 * x[0][i] - 2.0 * y[0][i];
        }
    }
    let format = FormatId::F32.format();
    let (tensor, name) = (pumex::plan::FROM_HOST, "rows".to_string());
    head.weights.push(pumex::plan::WeightInfo { name, tensor, rows: ROWS, cols: width, format });
    let weight = pumex::plan::Weight(head.weights.len() - 1);
    head.ops.insert(0, Op::Embed { weight, instead: None, out: last.1 });
    let mut runner = Reference::new(&by_hand, head, ROWS, 2, ROWS);
    runner.fill_rows(&stream);
    let mut all = rows(0, 0, &ids);
    (0..).zip(&mut all).for_each(|(i, row)| row.token = Token::Id(i));
    let truth = runner.run(&all, Want::Logits).unwrap().logits;
    let error = nmse(&found, &truth);
    assert!(error < 1e-10, "NMSE {error:e}");
    // Layers out of the range add nothing.
    let plain = run(&[], Layers::default());
    assert_eq!(run(&[(two.clone(), 1.0)], Layers { from: layers, to: layers }), plain);
    assert!(nmse(&found, &plain) > 1e-4);
    let wide = control_file("wide", &[1], width + 1).0;
    let none = control_file("zero", &[0], width).0;
    for (bad, what) in [(&wide, "of F32, found"), (&none, "expected direction.N")] {
        let mut gguf = recipe.gguf("qwen3");
        let error = adapter::attach(&mut gguf, &[], &[(bad.clone(), 1.0)], Layers::default()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    [one, two, wide, none].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn a_merged_file_gives_what_the_adapter_gives_at_run_time() {
    for name in ["qwen3", "qwen3moe"] {
        let recipe = Recipe::recipe_of(name);
        let base = recipe.gguf(name);
        let loras = [(adapter_of(&base, "", |_| true), 0.8)];
        let deltas = Deltas::new(&base, &model::plan(&base).unwrap(), &loras).unwrap();
        let options = quantize::Options { changes: Some(Box::new(deltas)), ..quantize::Options::default() };
        let path = std::env::temp_dir().join(format!("pumex-{}-merged-{name}.gguf", std::process::id()));
        let plan = quantize::Plan::new(&base, &options).unwrap();
        quantize::write(&base, &plan, &options, &path, &mut |_| true).unwrap().unwrap();
        let written = Gguf::open(&path).unwrap();
        assert_eq!(written.meta().iter().count(), base.meta().iter().count());
        let found = logits(&mut reference(&written), few(&recipe), ROWS);
        let truth = logits(&mut reference(&with(base, &loras)), few(&recipe), ROWS);
        let error = nmse(&found, &truth);
        assert!(error < 1e-10, "{name}: NMSE {error:e}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn adapters_for_other_models_are_told_by_name() {
    let recipe = Recipe::recipe_of("qwen3");
    let base = recipe.gguf("qwen3");
    let (name, dims) = ("blk.0.attn_q.weight", base.tensor("blk.0.attn_q.weight").unwrap().dims.clone());
    let refused = |meta: Vec<(&str, Value)>, tensors: Vec<(String, Vec<u64>, Vec<f32>)>| {
        let lora = Lora::of(open_bytes("bad", file(&meta, &tensors)));
        let attached =
            lora.and_then(|lora| adapter::attach(&mut recipe.gguf("qwen3"), &[(lora, 1.0)], &[], Layers::default()));
        attached.unwrap_err().to_string()
    };
    let good = || pair(name, &dims, RANK, "").to_vec();
    let meta = || meta_of_adapter("qwen3");
    let with_key = |key: &'static str, value: Value| {
        let mut meta = meta();
        meta.retain(|(k, _)| *k != key);
        meta.push((key, value));
        meta
    };
    let mut nan = good();
    nan[1].2[0] = f32::NAN;
    let wrong = |dims: [u64; 2]| pair(name, &dims, RANK, "").to_vec();
    let cases = [
        (with_key("general.type", text("model")), good(), "general.type: expected adapter, found model"),
        (with_key("adapter.type", text("dora")), good(), "adapter.type: expected lora, found dora"),
        (with_key("general.architecture", text("llama")), good(), "general.architecture: expected qwen3, found llama"),
        (with_key("adapter.lora.alpha", Value::F32(f32::NAN)), good(), "adapter.lora.alpha"),
        (with_key("adapter.alora.invocation_tokens", Value::U32(1)), good(), "invocation_tokens"),
        (meta(), good()[..1].to_vec(), "blk.0.attn_q.weight.lora_b: expected it beside"),
        (meta(), wrong([dims[0] + 32, dims[1]]), "blk.0.attn_q.weight: expected a pair for a tensor of"),
        (meta(), wrong([dims[0], dims[1] + 1]), "blk.0.attn_q.weight: expected a pair for a tensor of"),
        (meta(), pair("blk.99.attn_q.weight", &dims, RANK, "").to_vec(), "blk.99.attn_q.weight: expected a tensor of"),
        (meta(), pair(name, &dims, 4097, "").to_vec(), "expected a rank of 1 to 4096, found 4097"),
        (meta(), vec![("x".into(), vec![1], vec![1.0])], "x: expected a name ending in .lora_a"),
        (meta(), nan, "blk.0.attn_q.weight.lora_b: expected finite"),
    ];
    for (meta, tensors, expected) in cases {
        let error = refused(meta, tensors);
        assert!(error.contains(expected), "{error}: expected {expected}");
    }
}

/// What llama.cpp computed of some rows and columns, with an adapter of all matrices but the embedding and the last, and a control
/// vector of every layer but the first.
#[derive(serde::Deserialize)]
struct AdapterGolden {
    recipe: String,
    scale: f32,
    rows: Vec<usize>,
    every: usize,
    expected: Vec<f32>,
}

#[test]
fn adapters_and_control_vectors_give_what_llama_cpp_computed() {
    let golden: AdapterGolden = serde_json::from_str(include_str!("golden/adapters.json")).unwrap();
    let recipe = Recipe::recipe_of(&golden.recipe);
    let mut gguf = recipe.gguf("llama");
    let plan = model::plan(&gguf).unwrap();
    let loras = [(adapter_of(&gguf, "", |name| name.starts_with("blk.")), golden.scale)];
    let layers: Vec<usize> = (1..plan.layers.len()).collect();
    let (path, _) = control_file("golden", &layers, plan.values[plan.layer_ends[0].1 .0].width);
    adapter::attach(&mut gguf, &loras, &[(path.clone(), 1.0)], Layers::default()).unwrap();
    std::fs::remove_file(path).unwrap();
    let all = logits(&mut reference(&gguf), few(&recipe), ROWS);
    let row = |r: &usize| all[r * plan.n_vocab..][..plan.n_vocab].iter().step_by(golden.every).copied();
    let found: Vec<f32> = golden.rows.iter().flat_map(row).collect();
    let error = nmse(&found, &golden.expected);
    assert!(error < 1e-10, "NMSE {error:e}");
}
