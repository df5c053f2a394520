//! Real models on the CPU against what llama.cpp computed of them: the ids of a text, how likely each of them is, and what comes next.
//!
//! `tests/real_models.sh` fetches them; without a model, or without the golden files beside the checkout, a test is skipped and says so.

use crate::util::{logits, shared};
use pumex::engine::{self, CacheType, DeviceChoice, Options};
use pumex::gguf::Gguf;
use pumex::policy::ActivationQuant;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex::text::Tokenizer;
use std::path::PathBuf;

/// What llama.cpp computed, with weights decoded to f32 and a cache of f32.
#[derive(serde::Deserialize)]
struct Golden {
    tokens: Vec<u32>,
    /// Of each token but the first, the negative logarithm of its probability.
    nll: Vec<f64>,
    /// By position, the likeliest next id.
    argmax: Vec<u32>,
    greedy: Vec<u32>,
    greedy_margin: Vec<f64>,
}

struct Real {
    gguf: Gguf,
    golden: Golden,
    text: String,
}

fn real(name: &str) -> Option<Real> {
    let golden = shared()?.join("golden/real");
    let cache = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/pumex/real"));
    let folder = std::env::var_os("PUMEX_REAL_MODELS").map(PathBuf::from).or(cache)?;
    let path = folder.join(name).with_extension("gguf");
    if !path.exists() {
        eprintln!("skipped: no {}; tests/real_models.sh fetches it", path.display());
        return None;
    }
    let json = std::fs::read(golden.join(name).with_extension("json")).unwrap();
    Some(Real {
        gguf: Gguf::open(&path).unwrap(),
        golden: serde_json::from_slice(&json).unwrap(),
        text: std::fs::read_to_string(golden.join("text.txt")).unwrap(),
    })
}

/// Negative logarithm of the probability that logits give to an id, in doubles.
fn nll(logits: &[f32], id: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
    sum.ln() - f64::from(logits[id as usize] - most)
}

fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best }) as u32
}

fn options(activations: ActivationQuant, cache: CacheType) -> Options {
    Options {
        device: DeviceChoice::Cpu,
        n_ctx: Some(512),
        activations: Some(activations),
        cache_type_k: Some(cache),
        cache_type_v: Some(cache),
        ..Options::default()
    }
}

/// A model's text, likelihoods in floats and as it runs unless told, and the ids that come next.
fn check(name: &str, exact: f64, usual: f64) {
    let Some(Real { gguf, golden, text }) = real(name) else { return };
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode(&text, tokenizer.add_bos(), false).unwrap(), golden.tokens, "{name}");
    // The reference is slow where it is not optimized.
    let some = if cfg!(debug_assertions) { 24 } else { golden.tokens.len() };
    for (activations, cache, count, bound) in [
        (ActivationQuant::Q16, CacheType::F32, some, exact),
        (ActivationQuant::Q8, CacheType::F16, golden.tokens.len(), usual),
    ] {
        let mut runner = engine::load(&gguf, &options(activations, cache), &mut |_, _| ()).unwrap();
        let (vocab, ids) = (runner.n_vocab(), &golden.tokens[..count]);
        let all = logits(&mut *runner, ids, 512);
        let row = |i: usize| &all[i * vocab..][..vocab];
        let far = |i: usize| (nll(row(i), ids[i + 1]) - golden.nll[i]).abs();
        let errors: Vec<f64> = (0..count - 1).map(far).collect();
        let (worst, mean) =
            (errors.iter().copied().fold(0.0, f64::max), errors.iter().sum::<f64>() / errors.len() as f64);
        println!("{name} {activations:?}: likelihoods of {count} ids differ by {mean:.1e}, at most {worst:.1e}");
        assert!(mean <= bound, "{name} {activations:?}: {mean:e}, expected at most {bound:e}");
        if activations == ActivationQuant::Q16 {
            assert!((0..count).all(|i| argmax(row(i)) == golden.argmax[i]), "{name}");
            assert!(worst <= 20.0 * bound, "{name}: {worst:e}");
        }
        if count == golden.tokens.len() {
            let margin = if activations == ActivationQuant::Q16 { 1e-2 } else { 1.0 };
            greedy(&mut *runner, &golden, argmax(row(count - 1)), margin, name);
        }
    }
}

/// Ids are the same as long as the margin of the best is above the error.
fn greedy(runner: &mut dyn Runner, golden: &Golden, first: u32, margin: f64, name: &str) {
    let (mut id, mut pos) = (first, golden.tokens.len() as u32);
    for (expected, by) in golden.greedy.iter().zip(&golden.greedy_margin) {
        if id != *expected {
            assert!(*by < margin, "{name}: {id} at {pos}, expected {expected}, by {by}");
            return;
        }
        let row = Row { seq: 0, pos, token: Token::Id(id), output: RowOutput::Id };
        (id, pos) = (runner.run(&[row], Want::Ids).unwrap().ids[0], pos + 1);
    }
}

#[test]
fn smollm2_is_what_llama_cpp_makes_of_it() {
    check("smollm2", 1e-4, 0.05);
}
