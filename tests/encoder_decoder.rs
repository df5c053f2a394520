//! Models that answer sources: an encoder sees one at once, a decoder that sees what it left writes the answer.

use crate::seeded::Recipe;
use crate::util::{assert_silent, exact, exhaustive, logits, nmse, options, reference, rows, usual, vulkan};
use pumex::conversation::{feed_source, generate, importance, perplexity, PerplexityOptions, Request, StopReason};
use pumex::cpu::{Fast, FastSettings, RunnerSizes};
use pumex::engine::{CacheType, Debug, Options};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::plan::Plan;
use pumex::sample::{Sampler, SamplerOptions};
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

const VOCAB: usize = 64;

fn ids(count: usize, by: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * by + 11) % VOCAB) as u32).collect()
}

/// Rows of a source from position 0 on.
fn source(seq: u32, ids: &[u32]) -> Vec<Row> {
    let row =
        |(pos, id): (u32, &u32)| Row { seq, pos, token: Token::Source(*id), output: RowOutput::None, medium: None };
    (0..).zip(ids).map(row).collect()
}

/// Rows of two sequences in turn, as long as either has some.
fn in_turn(a: &[Row], b: &[Row]) -> Vec<Row> {
    (0..a.len().max(b.len())).flat_map(|i| a.get(i).into_iter().chain(b.get(i)).cloned()).collect()
}

fn fast(gguf: &Gguf) -> Fast<'_> {
    let f32s = || Elements::Floats(Float::F32);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs: 2, max_rows: 64, cache_positions: None, k: f32s(), v: f32s() };
    Fast::new(gguf, model::plan(gguf).unwrap(), sizes, &FastSettings::default()).unwrap()
}

/// The runners there are, by name.
fn runners(gguf: &Gguf) -> Vec<(&'static str, Box<dyn Runner + '_>)> {
    let mut all: Vec<(&'static str, Box<dyn Runner + '_>)> =
        vec![("reference", Box::new(reference(gguf))), ("cpu", Box::new(fast(gguf)))];
    if let Some(device) = vulkan(gguf, options(CacheType::F32)) {
        all.push(("device", Box::new(device)));
    }
    all
}

/// Logits of an answer to a source, in steps of `chunk` rows, by a sequence that held nothing.
fn answer(runner: &mut dyn Runner, seq: u32, from: &[u32], to: &[u32], chunk: usize) -> Vec<f32> {
    runner.forget(seq, 0);
    runner.run(&source(seq, from), Want::Logits).unwrap();
    let parts = to.chunks(chunk).enumerate();
    parts.flat_map(|(i, part)| continue_sequence(runner, seq, from.len() + i * chunk, part)).collect()
}

fn continue_sequence(runner: &mut dyn Runner, seq: u32, at: usize, ids: &[u32]) -> Vec<f32> {
    runner.run(&rows(seq, at, ids), Want::Logits).unwrap().logits
}

fn close(found: &[f32], truth: &[f32], what: &str) {
    let error = nmse(found, truth);
    assert!(error < 1e-9, "{what}: NMSE {error:e}");
}

#[test]
fn sequences_beside_each_other_answer_as_each_does_alone() {
    for name in ["t5", "t5-relu"] {
        let gguf = Recipe::recipe_of(name).gguf("made");
        let (from, to) = ([ids(5, 37), ids(37, 5)], [ids(16, 7), ids(16, 13)]);
        let mut truth = Vec::new();
        for (kind, mut runner) in runners(&gguf) {
            let runner = &mut *runner;
            let alone = [0, 1].map(|i| answer(runner, 0, &from[i], &to[i], 16));
            runner.forget(0, 0);
            // Both sources in one step, then rows of both in turn: some of each, and one of each.
            runner.run(&in_turn(&source(0, &from[0]), &source(1, &from[1])), Want::Logits).unwrap();
            let mut found = [Vec::new(), Vec::new()];
            for (at, n) in [(0, 10), (10, 1), (11, 4), (15, 1)] {
                let part = |i: usize| rows(i as u32, from[i].len() + at, &to[i][at..at + n]);
                let all = runner.run(&in_turn(&part(0), &part(1)), Want::Logits).unwrap().logits;
                all.chunks_exact(VOCAB).enumerate().for_each(|(i, row)| found[i % 2].extend_from_slice(row));
            }
            for i in 0..2 {
                close(&found[i], &alone[i], &format!("{name}, {kind}, sequence {i}"));
                close(&answer(runner, 1, &from[i], &to[i], 1), &alone[i], &format!("{name}, {kind}, row by row"));
            }
            if kind == "cpu" {
                continue; // activations of 8 bits
            }
            let known = std::mem::replace(&mut truth, alone.concat());
            if !known.is_empty() {
                close(&truth, &known, &format!("{name}, {kind}"));
            }
        }
    }
}

#[test]
fn forks_share_a_source_and_what_is_forgotten_amid_it_is_all() {
    let gguf = Recipe::recipe_of("t5").gguf("made");
    let (from, to, other) = (ids(40, 37), ids(9, 7), ids(9, 3));
    for (kind, mut runner) in runners(&gguf) {
        let runner = &mut *runner;
        let own = answer(runner, 0, &from, &to, 9);
        let mixed = [&to[..4], &other[4..]].concat();
        let truth = answer(runner, 1, &from, &mixed, 9);
        answer(runner, 0, &from, &to[..6], 3);
        runner.fork(0, 1, 44).unwrap();
        let fork = continue_sequence(runner, 1, 44, &other[4..]);
        close(&fork, &truth[4 * VOCAB..], &format!("{kind}, a fork"));
        close(&continue_sequence(runner, 0, 46, &to[6..]), &own[6 * VOCAB..], &format!("{kind}, what it came from"));
        // Back to the answer's start, with the source still there.
        runner.forget(1, 40);
        close(&continue_sequence(runner, 1, 40, &to), &own, &format!("{kind}, the source's next answer"));
        assert!(runner.fork(0, 1, 39).unwrap_err().to_string().contains("its whole source of 40"), "{kind}");
        runner.forget(1, 39);
        let error = runner.run(&rows(1, 39, &to[..1]), Want::Ids).unwrap_err().to_string();
        assert!(error.contains("sequence 1: expected a position behind its source of 0, found 39"), "{kind}: {error}");
        close(&answer(runner, 1, &from, &to, 9), &own, &format!("{kind}, all again"));
    }
}

#[test]
fn steps_that_mix_up_sources_and_answers_are_refused_and_change_nothing() {
    let gguf = Recipe::recipe_of("t5").gguf("made");
    for (kind, mut runner) in runners(&gguf) {
        let refused = |runner: &mut dyn Runner, rows: &[Row], what: &str| {
            let error = runner.start(rows).unwrap_err().to_string();
            assert!(error.contains(what), "{kind}: {error}");
        };
        let (from, to) = (ids(5, 37), ids(3, 7));
        let truth = answer(&mut *runner, 0, &from, &to, 3);
        runner.forget(0, 0);
        refused(&mut *runner, &rows(0, 0, &to), "expected a position behind its source of 0, found 0");
        let mut wanted = source(0, &from);
        wanted[4].output = RowOutput::Id;
        refused(&mut *runner, &wanted, "expected no output of a source's row");
        refused(&mut *runner, &source(0, &[64]), "token id: expected below 64, found 64");
        refused(&mut *runner, &source(0, &from)[1..], "position 1 of sequence 0: expected at most 0");
        runner.run(&source(0, &from), Want::Ids).unwrap();
        refused(&mut *runner, &source(0, &from), "expected all of a source in one step, before all else, found 5");
        refused(
            &mut *runner,
            &[source(1, &from), rows(0, 5, &to)].concat(),
            "sequence 1: expected rows of sources alone",
        );
        refused(&mut *runner, &rows(0, 4, &to), "expected a position behind its source of 5, found 4");
        let error = feed_source(&mut *runner, &ids(600, 3)).unwrap_err().to_string();
        assert!(error.contains("source of 600 tokens: expected at most"), "{kind}: {error}");
        close(&continue_sequence(&mut *runner, 0, 5, &to), &truth, kind);
        assert_eq!(runner.answers_from(), Some(0));
    }
    let other = Recipe::recipe_of("llama").gguf("made");
    let error = reference(&other).start(&source(0, &[1])).unwrap_err().to_string();
    assert!(error.contains("expected a model with an encoder"), "{error}");
}

#[test]
fn what_is_generated_is_the_answer() {
    let gguf = Recipe::recipe_of("t5-relu").gguf("made");
    let (from, stop) = (ids(11, 5), AtomicBool::new(false));
    let mut truth = vec![3];
    for _ in 0..12 {
        let all = answer(&mut reference(&gguf), 0, &from, &truth, 64);
        let last = &all[all.len() - VOCAB..];
        truth.push((0..VOCAB).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap() as u32);
    }
    for (kind, mut runner) in runners(&gguf).into_iter().filter(|(kind, _)| *kind != "cpu") {
        let request = Request {
            prompt: &from,
            media: &pumex::step::Media::new(),
            start: 0,
            n_predict: 12,
            is_end: &|_| false,
            stop: &stop,
            counters: false,
        };
        let mut sampler = Sampler::new(SamplerOptions { temperature: 0.0, ..Default::default() });
        let mut found = Vec::new();
        let stats = generate(&mut *runner, &request, &mut sampler, &mut |id| found.push(id)).unwrap();
        assert_eq!(found, truth[1..], "{kind}");
        assert_eq!((stats.prompt_tokens, stats.held, stats.stop), (11, 11 + 12, StopReason::Limit));
        let all = PerplexityOptions { n_ctx: 4, bos: None, windows: None };
        let error = perplexity(&mut *runner, &from, &all, &stop, &mut |_, _, _| ()).unwrap_err().to_string();
        assert!(error.contains("perplexity: expected a model that continues texts"), "{error}");
    }
}

/// The model with heads as wide as those that cooperative matrices take.
fn wide() -> Recipe {
    let mut recipe = Recipe::recipe_of("t5");
    for (name, dims) in &mut recipe.tensors {
        match name.rsplit_once("attn_").map(|(_, part)| part) {
            Some("q.weight" | "k.weight" | "v.weight") => *dims = vec![64, 256],
            Some("o.weight") => *dims = vec![256, 64],
            _ => {}
        }
    }
    recipe.keys.extend(["key", "value"].map(|of| (format!("attention.{of}_length"), json!(64))));
    recipe
}

/// A decoder of more layers than the encoder.
fn deep() -> Recipe {
    let mut recipe = Recipe::recipe_of("t5");
    recipe.tensors.retain(|name, _| !name.starts_with("enc.blk.1."));
    recipe.keys.insert("block_count".into(), json!(1));
    recipe.keys.insert("decoder_block_count".into(), json!(2));
    recipe
}

#[test]
fn parts_of_several_depths_and_widths_agree_on_a_device_with_the_reference() {
    for (name, recipe) in [("deep", deep()), ("wide", wide())] {
        let (gguf, ids) = (recipe.gguf("made"), ids(40, 37));
        let truth = logits(&mut reference(&gguf), &ids, 64);
        let error = nmse(&logits(&mut fast(&gguf), &ids, 64), &truth);
        assert!(error < 1.2e-4, "{name}, the fast interpreter: NMSE {error:e}");
        for (cache, bound) in [(CacheType::F32, 1e-9), (CacheType::F16, 1e-4)] {
            let Some(mut device) = vulkan(&gguf, usual(cache)) else { return };
            let bound = if device.vk().caps().matrix_n.is_empty() { bound } else { 1e-3 };
            for chunk in [40, 9, 1] {
                let error = nmse(&logits(&mut device, &ids, chunk), &truth);
                println!("{name}, {}, chunks of {chunk}: NMSE {error:.2e}", cache.name());
                assert!(error < bound, "{name}, {}, chunks of {chunk}: NMSE {error:e}", cache.name());
            }
            assert_silent(&device);
        }
    }
}

#[test]
fn importance_is_of_both_parts() {
    let gguf = Recipe::recipe_of("t5").gguf("made");
    let all = PerplexityOptions { n_ctx: 16, bos: None, windows: None };
    let stop = AtomicBool::new(false);
    let mut truth: Option<pumex::imatrix::Imatrix> = None;
    for (kind, mut runner) in runners(&gguf) {
        let found = importance(&mut *runner, &ids(32, 37), &all, &stop, &mut |_, _| ()).unwrap();
        assert_eq!(found.entries.len(), 2 * 7 + 2 * 11, "every matrix of all layers");
        let truth = truth.get_or_insert(found.clone());
        for ((name, a), (other, b)) in found.entries.iter().zip(&truth.entries) {
            assert_eq!((name, &a.counts), (other, &b.counts), "{kind}");
            let error = nmse(&a.mean, &b.mean);
            assert!(error < 1e-2, "{kind}, {name}: NMSE {error:e}");
        }
    }
}

#[test]
fn embeddings_are_those_of_the_encoder_alone() {
    let gguf = Recipe::recipe_of("t5").gguf("made");
    let mut recipe = Recipe::recipe_of("t5");
    recipe.arch = "t5encoder".into();
    recipe.tensors.retain(|name, _| !name.starts_with("dec."));
    let alone = recipe.gguf("made");
    let ids = ids(20, 37);
    let run = |plan: Plan, gguf| logits(&mut pumex::cpu::Reference::new(gguf, plan, 64, 1, 64), &ids, 64);
    let (found, truth) =
        (run(model::plan(&gguf).unwrap().embedding(), &gguf), run(model::plan(&alone).unwrap(), &alone));
    assert_eq!(found, truth);
}

#[test]
fn bad_files_are_told_in_one_error() {
    type Change = fn(&mut Recipe);
    let cases: [(Change, &[&str]); 8] = [
        (
            |r| r.tensors.retain(|name, _| !name.contains("cross_attn_k") && !name.contains("1.cross_attn_norm")),
            &["missing_tensor", "dec.blk.0.cross_attn_k.weight", "dec.blk.1.cross_attn_norm.weight"],
        ),
        (
            |r| drop(r.tensors.insert("dec.blk.0.cross_attn_v.weight".into(), vec![64, 32])),
            &["wrong_shape", "dec.blk.0.cross_attn_v.weight", "[64, 64]", "[64, 32]"],
        ),
        (|r| drop(r.tensors.remove("enc.output_norm.weight")), &["missing_tensor", "enc.output_norm.weight"]),
        (|r| drop(r.tensors.remove("dec.blk.0.attn_rel_b.weight")), &["missing_tensor", "dec.blk.0.attn_rel_b.weight"]),
        (|r| drop(r.keys.insert("attention.head_count_kv".into(), json!(2))), &["head_count", "as many heads of keys"]),
        (|r| drop(r.keys.insert("decoder_start_token_id".into(), json!(64))), &["decoder_start_token_id", "found 64"]),
        (|r| drop(r.keys.insert("decoder_block_count".into(), json!(0))), &["decoder_block_count", "found 0"]),
        (
            |r| drop(r.keys.insert("decoder_block_count".into(), json!(9))),
            &["missing_tensor", "dec.blk.2.attn_q.weight"],
        ),
    ];
    for (change, named) in cases {
        let mut recipe = Recipe::recipe_of("t5");
        change(&mut recipe);
        let error = model::plan(&recipe.gguf("made")).unwrap_err().to_string();
        assert!(named.iter().all(|n| error.contains(n)), "{named:?}: {error}");
    }
}

#[test]
fn the_plan_is_as_reviewed() {
    let text = model::plan(&Recipe::recipe_of("t5").gguf("made")).unwrap().to_string();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans/t5-seeded.txt");
    if std::env::var_os("PUMEX_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text, "{}", file.display());
}

/// A model with a vocabulary in a file of its own, gone with this.
pub struct TemporaryModel(pub PathBuf);

impl TemporaryModel {
    pub fn new(name: &str) -> TemporaryModel {
        let mut recipe = Recipe::recipe_of("t5");
        let word = |i: usize| match i {
            0 => "<pad>".to_string(),
            1 => "</s>".to_string(),
            2 => "<unk>".to_string(),
            i => format!("\u{2581}w{i}"),
        };
        let words: Vec<String> = (0..VOCAB).map(word).collect();
        let kinds: Vec<u32> = (0..VOCAB).map(|i| [3, 3, 2].get(i).copied().unwrap_or(1)).collect();
        let scores: Vec<f32> = (0..VOCAB).map(|i| if i < 3 { 0.0 } else { -1.5 }).collect();
        let keys = [
            ("model", json!("t5")),
            ("tokens", json!(words)),
            ("scores", json!(scores)),
            ("token_type", json!(kinds)),
            ("eos_token_id", json!(1)),
            ("add_eos_token", json!(true)),
        ];
        recipe.keys.extend(keys.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)));
        let path = std::env::temp_dir().join(format!("pumex-answers-{name}-{}.gguf", std::process::id()));
        std::fs::write(&path, recipe.bytes()).unwrap();
        TemporaryModel(path)
    }

    /// The model as Q8_0, in a file beside it.
    fn quantize_model(&self) -> TemporaryModel {
        let (path, mut process) = (self.0.with_extension("q8_0"), Command::new(env!("CARGO_BIN_EXE_pumex")));
        let output = process.arg("quantize").args([&self.0, &path]).arg("Q8_0").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        TemporaryModel(path)
    }

    fn run(&self, command: &str, args: &[&str]) -> Output {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pumex"));
        process.args([command, "-m"]).arg(&self.0).args(args);
        process.stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
    }

    fn stdout(&self, command: &str, args: &[&str]) -> String {
        let output = self.run(command, args);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for TemporaryModel {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The megakernel takes an answer's rows one at a time, and does what it takes; a pipeline of it takes long to build.
#[test]
fn answers_are_the_same_with_the_megakernel() {
    if !exhaustive() {
        return;
    }
    let made = TemporaryModel::new("megakernel").quantize_model();
    let gguf = Gguf::open(&made.0).unwrap();
    let run = |megakernel: bool| {
        let debug = Debug { megakernel: Some(megakernel), ..exact() };
        let mut runner = vulkan(&gguf, Options { debug, ..options(CacheType::F32) })?;
        assert_eq!(runner.has_megakernel(), megakernel);
        let all = [1, 20].map(|len| answer(&mut runner, 0, &ids(len, 37), &ids(12, 7), 1));
        assert_silent(&runner);
        Some(all.concat())
    };
    let (Some(found), Some(truth)) = (run(true), run(false)) else { return };
    let error = nmse(&found, &truth);
    assert!(error < 1e-8, "NMSE {error:e}");
}

#[test]
fn commands_answer_and_say_what_they_cannot() {
    let made = TemporaryModel::new("commands");
    let gguf = Gguf::open(&made.0).unwrap();
    // "w5 w9" and the end of a text; the answer to it by hand.
    let (from, mut ids) = ([5, 9, 1], vec![0]);
    let mut runner = reference(&gguf);
    for _ in 0..6 {
        let all = answer(&mut runner, 0, &from, &ids, 64);
        let last = &all[all.len() - VOCAB..];
        ids.push((0..VOCAB).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap() as u32);
        if ids[ids.len() - 1] == 1 {
            ids.pop();
            break;
        }
    }
    let args = ["-p", "w5 w9", "-n", "6", "--temp", "0", "--device", "reference"];
    let told = made.stdout("run", &args);
    let words: Vec<String> = ids[1..].iter().filter(|id| **id > 2).map(|id| format!("w{id}")).collect();
    assert_eq!(told.split_whitespace().collect::<Vec<_>>(), words, "{told:?}");
    let value: serde_json::Value =
        serde_json::from_str(&made.stdout("run", &[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!((&value["text"].as_str().unwrap().trim(), &value["prompt_tokens"]), (&told.trim(), &json!(3)));
    for (command, args, named) in [
        ("perplexity", &["-p", "w5 w9 w5 w9 w8 w7 w6 w5", "-c", "4", "--device", "cpu"][..], "continues texts"),
        ("profile", &["--device", "cpu"], "found one with an encoder"),
        ("bench", &["-d", "4", "--device", "cpu"], "nothing stands before the source"),
        ("run", &["-p", "w5 w9 w7", "-ub", "2", "--device", "reference"], "source of 4 tokens: expected at most 2"),
        ("run", &["-p", "w5 w9 w7", "-c", "4", "--device", "reference"], "needs 5 positions, the context has 4"),
    ] {
        let output = made.run(command, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(named), "{command}: {said}");
    }
    assert!(made.stdout("bench", &["-p", "8", "-n", "4", "-r", "1", "--device", "cpu"]).contains("tg4 @ d1"));
    assert!(made.stdout("explain", &["--as", "h200"]).contains(" source"));
    assert!(made.stdout("explain", &["--as", "h200", "--source", "-b", "20"]).contains(" full biases"));
    assert!(made.stdout("embed", &["w5 w9", "--device", "cpu"]).contains("\"width\": 64"));
}
