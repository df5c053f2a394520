//! The Vulkan engine against golden outputs of llama.cpp, each way of computing products with its own bound.

use crate::reference::{assert_greedy, greedy};
use crate::util::{
    assert_silent, exact, exhaustive, in_turn, logits, nmse, pick, sample, shared_folder, vulkan, Arithmetic, Golden,
};
use pumex::engine::{CacheType, Debug};
use pumex::gguf::Gguf;
use std::path::Path;

/// Golden files of the formats there are kernels for.
pub const TYPES: [&str; 26] = [
    "F16",
    "BF16",
    "Q1_0",
    "Q2_0",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K_S",
    "Q4_K_S",
    "Q5_K_S",
    "Q6_K",
    "IQ1_S",
    "IQ1_M",
    "IQ2_XXS",
    "IQ2_XS",
    "IQ2_S",
    "IQ3_XXS",
    "IQ3_S",
    "IQ4_NL",
    "IQ4_XS",
    "TQ1_0",
    "TQ2_0",
    "MXFP4_MOE",
];

/// A cache type, chunks of a prompt, how products are computed, and the bound of the error then.
type GoldenCase = (CacheType, usize, Arithmetic, f64);

/// Token by token, whole, as GPUs do both, and in between (several rows in one GEMV).
const WAYS: [GoldenCase; 5] = [
    (CacheType::F32, 1, Arithmetic::Exact, 1e-6),
    (CacheType::F16, 64, Arithmetic::Exact, 1e-6),
    (CacheType::F16, 1, Arithmetic::Short, 5e-4),
    (CacheType::F16, 64, Arithmetic::Halves, 1e-5),
    (CacheType::F32, 7, Arithmetic::Exact, 1e-6),
];

fn check(model: &Path, golden: &Path, ways: &[GoldenCase]) {
    check_with(model, golden, ways, &pumex::engine::Options::default());
}

fn check_with(model: &Path, golden: &Path, ways: &[GoldenCase], more: &pumex::engine::Options) {
    let gguf = Gguf::open(model).unwrap();
    let golden_data = Golden::load(golden);
    for &(cache, chunk, arithmetic, bound) in ways {
        let mut way = arithmetic.options(cache);
        way.debug = Debug { matrices: way.debug.matrices, ..more.debug };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        if arithmetic.lacking(runner.vk()) {
            continue;
        }
        let all = logits(&mut runner, &golden_data.tokens, chunk);
        let error = nmse(&pick(&all, golden_data.vocab, &golden_data.logit_positions), &golden_data.logits);
        println!("{} {cache:?} {arithmetic:?} chunks of {chunk}: NMSE {error:.2e}", golden.display());
        assert!(error <= bound, "{} {cache:?} {arithmetic:?}, chunks of {chunk}: NMSE {error:e}", golden.display());
        // Ids are the same as long as the margin is above the error.
        let margins = [(64, Arithmetic::Exact, 1e-2), (1, Arithmetic::Short, 0.25)];
        let margins = &margins[..if ways.len() < 3 { 1 } else { 2 }];
        if let Some((_, _, margin)) = margins.iter().find(|m| (m.0, m.1) == (chunk, arithmetic)) {
            let ids = greedy(&mut runner, &golden_data.tokens, golden_data.greedy.len());
            assert_greedy(&ids, &golden_data, *margin, &golden.display().to_string());
        }
        assert_silent(&runner);
    }
}

#[test]
fn demo_models_agree_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    let files =
        [("llama-f16", "llama"), ("llama-draft-f16", "llama-draft"), ("qwen3", "qwen3"), ("qwen3moe-f16", "qwen3moe")];
    for (file, name) in sample(&files, 1) {
        let ways = sample(&WAYS, 2);
        check(&shared.join("models").join(file).with_extension("gguf"), &shared.join("golden/demo").join(name), ways);
    }
    for experts in sample(&["archs/qwen3moe-moe"], 0) {
        check(&shared.join("models").join(experts).with_extension("gguf"), &shared.join("golden").join(experts), &WAYS);
    }
}

#[test]
fn models_of_the_repository_agree_with_llama_cpp() {
    for name in crate::util::FIXTURES {
        let stem = crate::util::fixture(name);
        check(&stem.with_extension("gguf"), &stem, sample(&WAYS, if name == "Q4_K_S" { 4 } else { 2 }));
    }
}

#[test]
fn every_format_agrees_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    for (i, name) in TYPES.iter().enumerate().filter(|(_, name)| exhaustive() || ["Q6_K", "MXFP4_MOE"].contains(name)) {
        let ways = WAYS[..if exhaustive() { 4 } else { 1 }].iter().enumerate();
        let ways: Vec<GoldenCase> = ways.filter(|(j, _)| in_turn(i + j, 3)).map(|(_, way)| *way).collect();
        check(&crate::util::type_model(&shared, name), &shared.join("golden/types").join(name), &ways);
    }
}

#[test]
fn weights_written_out_agree_with_llama_cpp() {
    let Some(shared) = shared_folder() else { return };
    for name in sample(&["IQ3_S", "IQ1_M", "IQ1_S"], 1) {
        let ways = &WAYS[..if exhaustive() { 4 } else { 1 }];
        let more = pumex::engine::Options {
            debug: Debug { force_staging: true, expand_codebooks: Some(true), ..exact() },
            ..Default::default()
        };
        check_with(&crate::util::type_model(&shared, name), &shared.join("golden/types").join(name), ways, &more);
    }
}

/// Shared memory does what operations over subgroups do.
#[test]
fn models_without_subgroups_agree_with_llama_cpp() {
    let without = Debug { subgroups: false, ..exact() };
    for (name, way) in [("Q4_K_S", WAYS[0]), ("qwen3moe", WAYS[1])] {
        check_fixture(name, if exhaustive() { &WAYS } else { std::slice::from_ref(&way) }, without);
    }
}

/// Words are loaded in place of numbers of 16 bits.
#[test]
fn models_without_halves_agree_with_llama_cpp() {
    check_fixture("IQ2_XXS", sample(&WAYS, 1), Debug { halves: false, ..exact() });
    let Some(shared) = shared_folder().filter(|_| exhaustive()) else { return };
    let all =
        TYPES.iter().enumerate().flat_map(|(i, name)| [false, true].map(|force_staging| (i, name, force_staging)));
    for (i, name, force_staging) in all.filter(|(i, _, force_staging)| in_turn(i + usize::from(*force_staging), 2)) {
        let ways = WAYS[..2].iter().enumerate().filter(|(j, _)| in_turn(i / 2 + j, 2));
        let ways: Vec<GoldenCase> = ways.map(|(_, way)| *way).collect();
        let floor = Debug { subgroups: false, halves: false, force_staging, ..exact() };
        let more = pumex::engine::Options { debug: floor, ..Default::default() };
        check_with(&crate::util::type_model(&shared, name), &shared.join("golden/types").join(name), &ways, &more);
    }
}

fn check_fixture(name: &str, ways: &[GoldenCase], debug: Debug) {
    let stem = crate::util::fixture(name);
    check_with(&stem.with_extension("gguf"), &stem, ways, &pumex::engine::Options { debug, ..Default::default() });
}
