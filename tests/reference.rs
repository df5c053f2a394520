//! The CPU reference against llama.cpp's golden outputs, and against itself.

use crate::util::{demo_path, logits, nmse, pick, reference, shared_folder, Golden};
use pumex::gguf::Gguf;
use pumex::step::{Row, RowOutput, Runner, Token};
use std::path::Path;

/// Greedy ids of `count` steps after `ids`, the sampled token fed back without passing through here.
pub fn greedy(runner: &mut dyn Runner, ids: &[u32], count: usize) -> Vec<u32> {
    runner.forget(0, 0);
    let mut rows = crate::util::rows(0, 0, ids);
    rows.iter_mut().rev().skip(1).for_each(|r| r.output = RowOutput::None);
    let mut pending = runner.start(&rows).unwrap();
    let mut out = Vec::new();
    for i in 0..count {
        let row =
            Row { seq: 0, pos: (ids.len() + i) as u32, token: Token::Sampled, output: RowOutput::Id, medium: None };
        let next = runner.start(&[row]).unwrap();
        out.extend(runner.finish(pending).unwrap().ids);
        pending = next;
    }
    runner.finish(pending).unwrap();
    out
}

/// Greedy ids must agree until the first one whose margin is within the path's error.
pub fn assert_greedy(found: &[u32], golden: &Golden, margin: f32, what: &str) {
    for (i, (f, g)) in found.iter().zip(&golden.greedy).enumerate() {
        if f != g {
            assert!(golden.greedy_margin[i] < margin, "{what}: id {i} is {f}, expected {g}");
            return;
        }
    }
}

fn check(model: &Path, golden: &Path, bound: f64) {
    let gguf = Gguf::open(model).unwrap();
    let golden_data = Golden::load(golden);
    let mut runner = reference(&gguf);
    let all = logits(&mut runner, &golden_data.tokens, 512);
    let error = nmse(&pick(&all, golden_data.vocab, &golden_data.logit_positions), &golden_data.logits);
    println!("reference {}: NMSE {error:.2e}", golden.display());
    assert!(error <= bound, "{}: NMSE {error:e}, bound {bound:e}", golden.display());
    let ids = greedy(&mut runner, &golden_data.tokens, golden_data.greedy.len());
    assert_greedy(&ids, &golden_data, 1e-2, &golden.display().to_string());
}

#[test]
fn demo_models_agree_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    let files = ["llama-f16", "llama-draft-f16", "qwen3", "qwen3moe-f16"];
    for (file, name) in files.into_iter().zip(["llama", "llama-draft", "qwen3", "qwen3moe"]) {
        check(&shared.join("models").join(file).with_extension("gguf"), &shared.join("golden/demo").join(name), 1e-8);
    }
}

#[test]
fn models_of_the_repository_agree_with_llama_cpp() {
    for name in crate::util::FIXTURES {
        let stem = crate::util::fixture(name);
        check(&stem.with_extension("gguf"), &stem, 1e-8);
    }
}

#[test]
fn every_format_agrees_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    for name in crate::goldens::TYPES {
        check(&crate::util::type_model(&shared, name), &shared.join("golden/types").join(name), 1e-6);
    }
}

#[test]
fn chunks_of_a_prompt_give_what_the_whole_gives() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..40).map(|i| (i * 97 + 5) % 4096).collect();
    let mut runner = reference(&gguf);
    let whole = logits(&mut runner, &ids, 64);
    for chunk in [1, 7] {
        assert!(nmse(&logits(&mut runner, &ids, chunk), &whole) < 1e-10, "chunks of {chunk}");
    }
}

#[test]
fn rows_outside_the_limits_are_refused() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let mut runner = reference(&gguf);
    let row = Row { seq: 0, pos: 0, token: Token::Id(5), output: RowOutput::Id, medium: None };
    for bad in [
        Row { token: Token::Id(4096), ..row.clone() },
        Row { seq: 2, ..row.clone() },
        Row { pos: 1024, ..row.clone() },
        Row { pos: 3, ..row },
    ] {
        assert!(runner.start(std::slice::from_ref(&bad)).is_err(), "{bad:?}");
    }
    assert!(runner.start(&[]).is_err());
}

/// In such a block the scale counts for the bias too, unlike in attention.
#[test]
fn a_scale_beside_a_bias_of_a_feed_forward_matrix_counts_for_both() {
    let Some(shared) = shared_folder() else { return };
    let archs = |of: &str| shared.join(of).join("archs/llama-dense");
    check(&archs("models").with_extension("gguf"), &archs("golden"), 1e-6);
}
