//! Adapters that count with scales of each sequence's own: rows of one step get what adapters at their sequence's scales give.

use crate::adapters::adapter_of;
use crate::seeded::{families, Recipe};
use crate::util::{device, exhaustive, nmse, options, rows, turn, vulkan};
use pumex::adapter::{self, Layers, Lora};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::engine::{CacheType, Offload, Options};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::step::{Runner, Want};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;

const ROWS: usize = 256;
/// Of two adapters, for each of two sequences.
const SCALES: [[f32; 2]; 2] = [[0.8, -0.5], [0.0, 1.25]];

/// Two adapters, of which one leaves some matrices out.
fn adapters(base: &Gguf) -> [Lora; 2] {
    [adapter_of(base, "", |_| true), adapter_of(base, "other", |name| !name.contains("attn_k"))]
}

/// The model with both, whose sequences have scales of their own.
fn by_sequence(mut gguf: Gguf) -> Gguf {
    let loras = adapters(&gguf);
    adapter::attach_by_sequence(&mut gguf, &loras, &[], Layers::default()).unwrap();
    gguf
}

/// The model with both at these scales, for all sequences.
fn at_scales(mut gguf: Gguf, scales: [f32; 2]) -> Gguf {
    let loras: Vec<(Lora, f32)> = adapters(&gguf).into_iter().zip(scales).collect();
    adapter::attach(&mut gguf, &loras, &[], Layers::default()).unwrap();
    gguf
}

fn reference(gguf: &Gguf) -> Reference<'_> {
    Reference::new(gguf, model::plan(gguf).unwrap(), ROWS, 2, ROWS)
}

fn few(recipe: &Recipe) -> &[u32] {
    &recipe.ids[..recipe.ids.len().min(24)]
}

/// Logits of every position of two sequences of the same ids, fed together in chunks.
fn feed_both(runner: &mut dyn Runner, ids: &[u32], chunk: usize) -> [Vec<f32>; 2] {
    let (mut found, vocab) = ([Vec::new(), Vec::new()], runner.n_vocab());
    (0..2).for_each(|seq| _ = runner.forget(seq, 0));
    for (i, part) in ids.chunks(chunk).enumerate() {
        let both: Vec<_> = (0..2).flat_map(|seq| rows(seq, i * chunk, part)).collect();
        let logits = runner.run(&both, Want::Logits).unwrap().logits;
        found.iter_mut().zip(logits.chunks_exact(part.len() * vocab)).for_each(|(of, part)| of.extend(part));
    }
    found
}

/// What the reference gives of adapters at the scales of each of the sequences.
fn truth_of(recipe: &Recipe, name: &'static str) -> [Vec<f32>; 2] {
    SCALES.map(|scales| {
        let gguf = at_scales(recipe.gguf(name), scales);
        let [first, second] = feed_both(&mut reference(&gguf), few(recipe), ROWS);
        assert!(first == second, "{name}: both sequences are alike there");
        first
    })
}

fn assert_both(name: &str, runner: &mut dyn Runner, recipe: &Recipe, chunk: usize, truth: &[Vec<f32>; 2], most: f64) {
    assert_eq!(runner.adapters(), 2, "{name}");
    (0..2).zip(SCALES).for_each(|(seq, scales)| runner.set_adapter_scales(seq, &scales).unwrap());
    for (seq, (found, truth)) in feed_both(runner, few(recipe), chunk).iter().zip(truth).enumerate() {
        let error = nmse(found, truth);
        assert!(error < most, "{name}, chunks of {chunk}, sequence {seq}: NMSE {error:e}");
    }
}

#[test]
fn every_family_gives_each_sequence_of_a_step_what_adapters_at_its_scales_give() {
    let mut count = 0;
    // Each family is computed three times over: by the commit, a quarter of them.
    for (_, (name, recipe)) in
        families().into_iter().enumerate().filter(|(at, _)| exhaustive() || (at + turn()).is_multiple_of(4))
    {
        let gguf = by_sequence(recipe.gguf(name));
        let mut runner = reference(&gguf);
        if runner.answers_from().is_some() {
            continue; // sources have steps of their own
        }
        let truth = truth_of(&recipe, name);
        let (most, change): (f64, f64) =
            (if name.ends_with("-deep") { 1e-7 } else { 1e-10 }, nmse(&truth[0], &truth[1]));
        assert!(change > 0.0, "{name}: the scales make a difference");
        assert_both(name, &mut runner, &recipe, ROWS, &truth, most.min(change / 100.0));
        count += 1;
    }
    assert!(count > 25, "{count}");
}

#[test]
fn scales_that_are_set_anew_count_from_the_next_row_on() {
    let recipe = Recipe::recipe_of("qwen3");
    let gguf = by_sequence(recipe.gguf("qwen3"));
    let mut runner = reference(&gguf);
    let ids = few(&recipe);
    let zero = feed_both(&mut runner, ids, ROWS)[0].clone();
    runner.set_adapter_scales(0, &SCALES[0]).unwrap();
    let [own, other] = feed_both(&mut runner, ids, ROWS);
    assert!(own != zero && other == zero, "another sequence's stay, and are 0 to begin with");
    runner.forget(0, 0);
    let first = runner.run(&rows(0, 0, &ids[..5]), Want::Logits).unwrap().logits;
    runner.set_adapter_scales(0, &[0.0; 2]).unwrap();
    let second = runner.run(&rows(0, 5, &ids[5..]), Want::Logits).unwrap().logits;
    assert!(first == own[..first.len()] && second != own[first.len()..] && second != zero[first.len()..]);
    for (seq, scales) in [(2, &[1.0, 1.0][..]), (0, &[1.0])] {
        let error = runner.set_adapter_scales(seq, scales).unwrap_err().to_string();
        assert!(error.contains(&format!("sequence {seq}: expected one below 2 and scales of 2 adapters")), "{error}");
    }
}

#[test]
fn an_adapter_that_does_not_count_does_no_harm_however_bad_it_is() {
    let recipe = Recipe::recipe_of("qwen3");
    let mut base = recipe.gguf("qwen3");
    let lora = adapter_of(&base, "", |_| true);
    adapter::attach_by_sequence(&mut base, &[lora], &[], Layers::default()).unwrap();
    let mut runner = reference(&base);
    runner.set_adapter_scales(1, &[f32::INFINITY]).unwrap();
    let both: Vec<_> = (0..2).flat_map(|seq| rows(seq, 0, few(&recipe))).collect();
    let ticket = runner.start(&both).unwrap();
    let output = runner.finish_each(ticket).unwrap();
    assert!(!output.nan.is_empty() && output.nan.iter().all(|nan| both[nan.row].seq == 1), "{:?}", output.nan);
}

#[test]
fn the_cpu_gives_each_sequence_its_own_scales() {
    let full = || Elements::Floats(Float::F32);
    let sizes = RunnerSizes { n_ctx: ROWS, n_seqs: 2, max_rows: ROWS, cache_positions: None, k: full(), v: full() };
    for name in ["qwen3", "qwen3moe", "gemma3", "mamba2", "deepseek2"] {
        let recipe = Recipe::recipe_of(name);
        let (gguf, truth) = (by_sequence(recipe.gguf(name)), truth_of(&recipe, name));
        let mut fast = Fast::new(&gguf, model::plan(&gguf).unwrap(), sizes, &FastSettings::default()).unwrap();
        [ROWS, 1].iter().for_each(|chunk| assert_both(name, &mut fast, &recipe, *chunk, &truth, 1e-8));
    }
}

#[test]
fn sequences_on_a_device_have_their_own_scales() {
    let names: &[&str] =
        if exhaustive() { &["qwen3", "qwen3moe", "deepseek2", "gemma3"] } else { &["qwen3", "qwen3moe"] };
    for name in names {
        let recipe = Recipe::recipe_of(name);
        let (gguf, truth) = (by_sequence(recipe.gguf(name)), truth_of(&recipe, name));
        let way = Options { n_ctx: Some(ROWS as u32), max_rows: ROWS as u32, n_seqs: 2, ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        [ROWS, 1].iter().for_each(|chunk| assert_both(name, &mut runner, &recipe, *chunk, &truth, 1e-8));
    }
}

#[test]
fn a_model_parted_on_a_device_and_the_cpu_has_them_in_both_parts() {
    let recipe = Recipe::recipe_of("qwen3");
    let (gguf, truth) = (by_sequence(recipe.gguf("qwen3")), truth_of(&recipe, "qwen3"));
    let plan = model::plan(&gguf).unwrap();
    let Some(device) = device(false) else { return };
    let way = Options { n_ctx: Some(ROWS as u32), n_seqs: 2, activations: None, ..options(CacheType::F32) };
    let on_gpu = plan.layers.len() - 1;
    let mut runner = Offload::new(&gguf, &plan, device, on_gpu, &way, &mut |_, _| ()).unwrap();
    assert_both("qwen3", &mut runner, &recipe, 24, &truth, 3e-4);
}
