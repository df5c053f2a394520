//! Rows that are vectors: the embedding's own rows give what their ids do, and whole prompts with pictures and sounds, whose vectors are
//! stored, what llama.cpp computed.

use crate::seeded::{families, numbers, Recipe};
use crate::util::{assert_silent, bound, exhaustive, logits, nmse, options, rows, shared_folder, vulkan};
use pumex::conversation::{feed_rows, run_chunks, Feed};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Options};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::step::{Media, Medium, Positions, Row, RowOutput, Runner, Stream, Want, MEDIA_IDS};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Positions of a context, rows of a step.
const N_CTX: usize = 512;

fn sizes(max_rows: usize) -> RunnerSizes {
    let of = || Elements::Floats(Float::F32);
    RunnerSizes { n_ctx: N_CTX, n_seqs: 3, max_rows, cache_positions: None, k: of(), v: of() }
}

/// Both interpreters on the CPU, for a file.
fn on_the_cpu(gguf: &Gguf, max_rows: usize) -> [(&'static str, Box<dyn Runner + '_>); 2] {
    let plan = || model::plan(gguf).unwrap();
    let reference = Reference::new(gguf, plan(), N_CTX, 3, max_rows);
    let fast = Fast::new(gguf, plan(), sizes(max_rows), &FastSettings::default()).unwrap();
    [("reference", Box::new(reference)), ("fast", Box::new(fast))]
}

/// Logits of all rows of a feed from `start` on, in sequence 0.
fn logits_of(runner: &mut dyn Runner, feed: &Feed, start: usize) -> Vec<f32> {
    let mut all = Vec::new();
    let rows = feed.rows(start, |_| RowOutput::Logits);
    let stop = AtomicBool::new(false);
    run_chunks(runner, &rows, &stop, &mut |output| {
        all.extend(output.logits);
        Ok(())
    })
    .unwrap();
    all
}

/// Vectors of ids: rows of the embedding, as they stand in the residual stream of a family that scales ids alone.
fn vectors(recipe: &Recipe, ids: &[u32], width: usize) -> Vec<f32> {
    let dims = &recipe.tensors["token_embd.weight"];
    let (table, dim) = (numbers("token_embd.weight", dims), dims[0] as usize);
    let own = ["gemma3", "gemma3n", "gemma4", "gemma-embedding"].contains(&recipe.arch.as_str());
    let scale = if own { (dim as f32).sqrt() } else { 1.0 };
    let row = |id: &u32| {
        let row = &table[*id as usize * dim..][..dim];
        let row = row.iter().map(|x| x * scale).collect::<Vec<_>>();
        [row, vec![0.0; width - dim]].concat()
    };
    ids.iter().flat_map(row).collect()
}

/// The ids, two runs of which are vectors.
fn half_vectors(recipe: &Recipe, width: usize) -> Feed {
    let (ids, mut feed) = (&recipe.ids, Feed::default());
    let at = |part: usize| part * ids.len() / 5;
    for part in 0..5 {
        let run = &ids[at(part)..at(part + 1)];
        if part % 2 == 1 {
            let rows = vectors(recipe, run, width).into();
            let medium = Medium::new(part as u64, rows, run.len(), Positions::Sequential, false).unwrap();
            feed.medium(medium.into());
        } else {
            feed.text(run);
        }
    }
    feed
}

/// Recipes whose rows may be vectors, and the width of these.
fn taking_vectors() -> Vec<(&'static str, Recipe, Gguf, usize)> {
    let of = |(name, recipe): (&'static str, Recipe)| {
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let by_id = recipe.tensors.contains_key("per_layer_token_embd.weight") || name.contains("hash");
        let fits = recipe.tensors.contains_key("token_embd.weight") && recipe.ids.len() < N_CTX && recipe.ids.len() > 9;
        let width = plan.vector_limits().filter(|_| fits && !by_id && !plan.looks_ahead())?.width;
        Some((name, recipe, gguf, width))
    };
    families().into_iter().filter_map(of).collect()
}

#[test]
fn rows_of_the_embedding_give_what_their_ids_do() {
    let tried = taking_vectors();
    let names: Vec<&str> = tried.iter().map(|(name, ..)| *name).collect();
    for kind in ["llama", "qwen2vl", "qwen3vl", "hunyuan_vl", "gemma3", "granite", "starcoder", "mamba2", "llama4"] {
        assert!(names.contains(&kind), "{kind} is not among {names:?}");
    }
    for (name, recipe, gguf, width) in tried {
        let feed = half_vectors(&recipe, width);
        let bound = bound(&model::plan(&gguf).unwrap(), name).max(1e-9);
        for (way, mut runner) in on_the_cpu(&gguf, 7) {
            let truth = logits(&mut *runner, &recipe.ids, 7);
            runner.forget(0, 0);
            let error = nmse(&logits_of(&mut *runner, &feed, 0), &truth);
            assert!(error <= bound, "{name}, {way}: NMSE {error:e}, expected at most {bound:e}");
        }
    }
}

/// A prompt of `golden/vision/e2e`.
struct GoldenPrompt {
    name: String,
    text: Gguf,
    feed: Feed,
    greedy: Vec<u32>,
    expected: Vec<f32>,
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn floats(path: &Path) -> Vec<f32> {
    let raw = std::fs::read(path).unwrap();
    raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn number(json: &Json, key: &str) -> usize {
    json[key].as_u64().unwrap() as usize
}

fn words(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// Positions of a chunk: streams that name its own first position or what lies behind it follow the counter.
fn positions(chunk: &Json) -> Positions {
    let Some(given) = chunk["positions_tyxz"].as_array() else { return Positions::Sequential };
    let first = number(chunk, "pos_0") as u32;
    let is_grid = chunk["pos_type"] == "mrope";
    let stream = |at: &u32, fourth: bool| match at.checked_sub(first) {
        Some(after) if !fourth || !is_grid && after == 0 => Stream::After(after),
        _ => Stream::At(*at),
    };
    let row = |row: &Json| {
        let at = words(row);
        [0, 1, 2, 3].map(|i| stream(&at[i], i == 3))
    };
    Positions::Streams { rows: given.iter().map(row).collect(), n_pos: number(chunk, "n_pos") }
}

/// The vectors of a prompt's media, one after the other, where the vectors of their chunks are stored; none where a case's chunks are
/// others.
fn stored_vectors(vision: &Path, case: &Json) -> Option<Vec<Vec<f32>>> {
    let folder = vision.join("cases").join(case["mmproj"].as_str().unwrap());
    let mut all = Vec::new();
    for medium in case["media"].as_array().unwrap() {
        let file = medium["file"].as_str().unwrap();
        let stem = file.split('.').next().unwrap();
        let own = std::fs::read(folder.join(stem).with_extension("json")).ok()?;
        let own: Json = serde_json::from_slice(&own).unwrap();
        let named = own["chunks"].as_array().unwrap().iter().filter_map(|chunk| chunk["embd"].as_str());
        all.extend(named.map(|name| floats(&folder.join(name))));
    }
    let chunks = case["chunks"].as_array().unwrap().iter().filter(|chunk| chunk["type"] != "text");
    let lengths: Vec<usize> = chunks.map(|chunk| number(chunk, "n_tokens") * number(case, "n_embd_out")).collect();
    (all.iter().map(Vec::len).eq(lengths)).then_some(all)
}

/// All of them whose vectors are stored; of a video they are not.
fn prompts() -> Vec<GoldenPrompt> {
    let Some(shared) = shared_folder() else { return Vec::new() };
    let vision = shared.join("golden/vision");
    let mut paths: Vec<_> = std::fs::read_dir(vision.join("e2e")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let mut prompts = Vec::new();
    for path in paths {
        let (name, case) = (path.file_stem().unwrap().to_string_lossy().into_owned(), json(&path));
        let Some(vectors) = stored_vectors(&vision, &case) else {
            assert!(name.ends_with("_video"), "{name}: no vectors are stored for it");
            continue;
        };
        let (mut feed, mut vectors) = (Feed::default(), vectors.into_iter());
        for (i, chunk) in case["chunks"].as_array().unwrap().iter().enumerate() {
            if chunk["type"] == "text" {
                feed.text(&words(&chunk["tokens"]));
                continue;
            }
            let sees_itself = chunk["non_causal"].as_bool().unwrap();
            let (rows, n) = (vectors.next().unwrap().into(), number(chunk, "n_tokens"));
            let medium = Medium::new(i as u64, rows, n, positions(chunk), sees_itself).unwrap();
            feed.medium(Arc::new(medium));
        }
        let text = Gguf::open(&vision.join("text").join(case["text_model"].as_str().unwrap()).with_extension("gguf"));
        let expected = floats(&path.with_file_name(case["logits"].as_str().unwrap()));
        prompts.push(GoldenPrompt { name, text: text.unwrap(), feed, greedy: words(&case["greedy"]), expected });
    }
    assert!(prompts.len() >= 18, "{} prompts", prompts.len());
    prompts
}

impl GoldenPrompt {
    /// Most rows of one medium whose rows see each other.
    fn longest_group(&self) -> usize {
        self.feed.media.iter().filter(|(_, m)| m.sees_itself()).map(|(_, m)| m.rows()).max().unwrap_or(1)
    }

    /// Logits behind the prompt, which sequence `seq` holds up to `start`, and behind each greedy id.
    fn run(&self, runner: &mut dyn Runner, seq: u32, start: usize) -> Vec<f32> {
        let len = self.feed.ids.len();
        let last = |at: usize| if at + 1 == len { RowOutput::Logits } else { RowOutput::None };
        let mut rows = self.feed.rows(start, last);
        rows.iter_mut().for_each(|row| row.seq = seq);
        let mut found = Vec::new();
        run_chunks(runner, &rows, &AtomicBool::new(false), &mut |output| {
            found.extend(output.logits);
            Ok(())
        })
        .unwrap();
        for (i, id) in self.greedy.iter().enumerate() {
            let row = crate::util::rows(seq, len + i, &[*id]);
            found.extend(runner.run(&row, Want::Logits).unwrap().logits);
        }
        found
    }

    fn check(&self, found: &[f32], way: &str) {
        let error = nmse(found, &self.expected);
        println!("{}, {way}: NMSE {error:.2e}", self.name);
        assert!(error <= 1e-5, "{}, {way}: NMSE {error:e}", self.name);
    }
}

#[test]
fn prompts_with_media_give_on_the_cpu_what_llama_cpp_computed() {
    for prompt in prompts() {
        for max_rows in [N_CTX, prompt.longest_group().max(16)] {
            for (way, mut runner) in on_the_cpu(&prompt.text, max_rows) {
                prompt.check(&prompt.run(&mut *runner, 0, 0), &format!("{way}, steps of {max_rows}"));
            }
        }
    }
}

/// Prompts that a device computes unless it computes all: of every kind of position and mask.
const SOME: [&str; 5] = ["gemma3_two", "hunyuanvl", "llava", "qwen2vl_two", "qwen3vl"];

#[test]
fn prompts_with_media_give_on_a_device_what_llama_cpp_computed() {
    for prompt in prompts().iter().filter(|prompt| exhaustive() || SOME.contains(&prompt.name.as_str())) {
        for max_rows in [N_CTX, prompt.longest_group().max(16)] {
            let sizes = Options { n_ctx: Some(N_CTX as u32), max_rows: max_rows as u32, ..options(CacheType::F32) };
            let Some(mut runner) = vulkan(&prompt.text, sizes) else { return };
            prompt.check(&prompt.run(&mut runner, 0, 0), &format!("steps of {max_rows} on a device"));
            // Beside rows of text of another sequence, and behind a fork.
            let (begin, _) = prompt.feed.media.iter().last().unwrap();
            runner.fork(0, 1, begin as u32).unwrap();
            runner.run(&rows(0, prompt.feed.ids.len() + prompt.greedy.len(), &[5, 6]), Want::Ids).unwrap();
            prompt.check(&prompt.run(&mut runner, 1, begin), &format!("a fork, steps of {max_rows} on a device"));
            assert_silent(&runner);
        }
    }
}

#[test]
fn rows_of_the_embedding_give_on_a_device_what_their_ids_do() {
    let some = ["starcoder", "gemma3", "llama4", "mamba2", "qwen3vl"];
    for (name, recipe, gguf, width) in taking_vectors() {
        if !some.contains(&name) {
            continue;
        }
        let sizes = Options { n_ctx: Some(N_CTX as u32), max_rows: 7, ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, sizes) else { return };
        let truth = logits(&mut runner, &recipe.ids, 7);
        runner.forget(0, 0);
        let error = nmse(&logits_of(&mut runner, &half_vectors(&recipe, width), 0), &truth);
        assert!(error <= 1e-9, "{name}: NMSE {error:e}");
        assert_silent(&runner);
    }
}

#[test]
fn sequences_with_media_are_cut_forked_and_saved() {
    for prompt in prompts().iter().filter(|p| ["qwen2vl_two", "gemma3_two", "hunyuanvl"].contains(&p.name.as_str())) {
        let (begin, medium) = prompt.feed.media.iter().last().unwrap();
        let inside = begin + medium.rows() / 2;
        for (way, mut runner) in on_the_cpu(&prompt.text, N_CTX) {
            let runner = &mut *runner;
            prompt.run(runner, 0, 0);
            runner.fork(0, 1, begin as u32).unwrap();
            prompt.check(&prompt.run(runner, 1, begin), &format!("{way}, forked before a picture"));
            assert_eq!(runner.forget(0, inside as u32), inside);
            let other = rows(0, inside, &[5]);
            let error = runner.start(&other).unwrap_err().to_string();
            assert!(error.contains("expected row") && error.contains("of a medium of"), "{error}");
            prompt.check(&prompt.run(runner, 0, inside), &format!("{way}, cut in a picture"));
            let mut state = Vec::new();
            runner.forget(1, prompt.feed.ids.len() as u32);
            runner.save(1, &mut state).unwrap();
            runner.restore(2, &mut &state[..]).unwrap();
            let row = rows(2, prompt.feed.ids.len(), &prompt.greedy[..1]);
            let found = runner.run(&row, Want::Logits).unwrap().logits;
            let width = runner.n_vocab();
            let error = nmse(&found, &prompt.expected[width..2 * width]);
            assert!(error <= 1e-5, "{}, {way}: NMSE {error:e} of a state", prompt.name);
        }
    }
}

#[test]
fn rows_that_a_model_does_not_take_are_refused() {
    let gguf = Recipe::recipe_of("llama").gguf("llama");
    let width = model::plan(&gguf).unwrap().vector_limits().unwrap().width;
    let medium = |width: usize, n: usize, positions, sees_itself| {
        let mut media = Media::new();
        let medium = Arc::new(Medium::new(3, vec![0.5; n * width].into(), n, positions, sees_itself).unwrap());
        let ids: Vec<u32> = medium.ids().collect();
        media.push(0, medium);
        feed_rows(&ids, 0, &media, |_| RowOutput::None)
    };
    let sequential = || Positions::Sequential;
    for (way, mut runner) in on_the_cpu(&gguf, 4) {
        let mut refused = |rows: &[Row]| runner.start(rows).unwrap_err().to_string();
        assert!(refused(&medium(width + 1, 2, sequential(), false)).contains("expected vectors of"), "{way}");
        assert!(refused(&medium(width, 2, Positions::grid(2, 1), false)).contains("several streams"), "{way}");
        let group = medium(width, 6, sequential(), true);
        let error = refused(&group[..4]);
        assert!(error.contains("6 rows that see each other") && error.contains("at most 4"), "{error}");
        assert!(run_chunks(&mut *runner, &group, &AtomicBool::new(false), &mut |_| Ok(())).is_err());
        let stray = Row { medium: None, ..medium(width, 1, sequential(), false).remove(0) };
        assert!(stray.token == pumex::step::Token::Id(MEDIA_IDS.max(3)) || runner.start(&[stray]).is_err());
    }
}
