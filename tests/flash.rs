//! Attention of many rows by cooperative matrices, against the kernel that needs none.

use crate::util::{assert_silent, exact, nmse, options, rows, sample, vulkan};
use pumex::engine::{CacheType, Debug, Options};
use pumex::quantize::recipe;
use pumex::step::{Row, Runner, Want};
use pumex::synthetic;

/// Bound of the squared error: weights, activations and what attention weighs with are rounded to halves.
const BOUND: f64 = 2e-6;
/// Bound of the squared error where rounding changes some codes of the cache by one.
const BOUND_OF_CODES: f64 = 1e-3;

/// Steps whose tiles of rows have one sequence, the end of one and the start of another, and both in turn, at several depths.
fn steps() -> Vec<Vec<Row>> {
    let ids: Vec<u32> = (0..200).map(|i| (i * 37 + 5) % 640).collect();
    let mut steps = vec![[rows(0, 0, &ids[..37]), rows(1, 0, &ids[50..70])].concat()];
    let turns = rows(0, 37, &ids[37..67]).into_iter().zip(rows(1, 20, &ids[70..100]));
    steps.push(turns.flat_map(|(a, b)| [a, b]).collect());
    steps.push(rows(0, 67, &ids[67..131]));
    steps.push([rows(1, 50, &ids[100..117]), rows(0, 131, &ids[131..132])].concat());
    steps
}

/// Heads that the kernels above do not take: wide ones, and those of widths that no matrix divides.
#[test]
fn many_rows_attend_alike_by_matrices_from_shared_memory() {
    use CacheType::{Iq4Nl, F16, Q4_0, Q4_1, Q8_0};
    let halves = [(4, 2, 256), (6, 2, 80), (2, 1, 192), (4, 2, 40), (4, 1, 112)];
    let halves = sample(&halves, 2).iter().map(|heads| (*heads, (F16, F16)));
    let others = [(F16, Q8_0), (Q4_0, Q4_1), (Iq4Nl, F16)];
    let others = sample(&others, 1).iter().map(|types| ((4, 2, 256), *types));
    for (heads, types) in halves.chain(others) {
        let Some(staged) = run(heads, types, AttentionKernel::Staged) else { return };
        let Some(scalar) = run(heads, types, AttentionKernel::Scalar) else { return };
        let error = nmse(&staged, &scalar);
        println!("{heads:?} {types:?}: NMSE {error:.2e}");
        let bound = if types == (F16, F16) { BOUND } else { BOUND_OF_CODES };
        assert!(error < bound, "{heads:?} {types:?}: NMSE {error:e}");
    }
}

/// Heads that workgroups hold, and those that other kernels take, too.
#[test]
fn many_rows_attend_alike_by_matrices_that_workgroups_hold() {
    use CacheType::{Iq4Nl, F16, Q4_0, Q4_1, Q8_0};
    let halves = [(8, 2, 64), (4, 2, 256), (6, 2, 80), (4, 2, 128), (2, 1, 192), (4, 2, 40), (4, 1, 112), (2, 1, 320)];
    let halves = sample(&halves, 2).iter().map(|heads| (*heads, (F16, F16)));
    let others = [(F16, Q8_0), (Q4_0, Q4_1), (Iq4Nl, F16)];
    let others = sample(&others, 1).iter().map(|types| ((4, 2, 256), *types));
    for (heads, types) in halves.chain(others) {
        let Some(held) = run(heads, types, AttentionKernel::Group) else { return };
        let Some(scalar) = run(heads, types, AttentionKernel::Scalar) else { return };
        let error = nmse(&held, &scalar);
        println!("{heads:?} {types:?}: NMSE {error:.2e}");
        let bound = if types == (F16, F16) { BOUND } else { BOUND_OF_CODES };
        assert!(error < bound, "{heads:?} {types:?}: NMSE {error:e}");
    }
}

/// How attention of many rows goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AttentionKernel {
    Scalar,
    Fragments,
    Prompt,
    Staged,
    Group,
}

/// Logits of all steps for such heads and caches; none where the device has no such kernel.
fn run(heads: (u32, u32, u32), (k, v): (CacheType, CacheType), way: AttentionKernel) -> Option<Vec<f32>> {
    let ((n_head, n_head_kv, head_dim), tiny) = (heads, synthetic::find("tiny").unwrap());
    let (n_embd, n_ff) = (512, 1024);
    let shape = synthetic::Shape { n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab: 640, ..*tiny };
    let gguf = shape.model(recipe::find("Q8_0").unwrap()).unwrap();
    let mut runner = vulkan(
        &gguf,
        Options {
            debug: Debug { matrices: way != AttentionKernel::Scalar, ..exact() },
            cache_type_v: Some(v),
            without: match way {
                AttentionKernel::Group => vec!["attn_prompt", "attn_flash", "attn_staged"],
                AttentionKernel::Prompt => Vec::new(),
                _ => vec!["attn_prompt"],
            },
            ..options(k)
        },
    )?;
    let missing = match way {
        AttentionKernel::Scalar => false,
        AttentionKernel::Fragments | AttentionKernel::Prompt => head_dim <= 128 && !runner.attends_many_by_matrices(),
        AttentionKernel::Staged => runner.vk().caps().matrix_n.is_empty(),
        AttentionKernel::Group => !runner.vk().caps().group_matrix(),
    };
    if missing {
        println!("skipped: {} has no cooperative matrices held as attention expects", runner.device());
        return None;
    }
    let all = steps().iter().flat_map(|step| runner.run(step, Want::Logits).unwrap().logits).collect();
    assert_silent(&runner);
    Some(all)
}

#[test]
fn many_rows_attend_alike_with_matrices_and_without() {
    use CacheType::{Iq4Nl, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    // Wide heads come after others, by which it is seen what the device's threads hold.
    let halves = [(8, 2, 64), (6, 2, 128), (4, 2, 128), (2, 2, 64), (4, 2, 256), (3, 1, 256), (8, 2, 256)];
    let halves = halves.map(|heads| (heads, (F16, F16)));
    let others =
        [(F16, Q8_0), (Q8_0, F16), (Q4_0, Q4_1), (Q5_0, Q5_1), (Iq4Nl, Q8_0)].map(|types| ((4, 2, 128), types));
    for (heads, types) in halves.into_iter().chain(others).chain([((4, 2, 256), (Q8_0, Q4_0))]) {
        let Some(matrices) =
            run(heads, types, if heads.2 > 128 { AttentionKernel::Staged } else { AttentionKernel::Fragments })
        else {
            return;
        };
        let Some(prompt) = run(heads, types, AttentionKernel::Prompt) else { return };
        let Some(scalar) = run(heads, types, AttentionKernel::Scalar) else { return };
        let errors = [matrices, prompt].map(|found| nmse(&found, &scalar));
        println!("{heads:?} {types:?}: NMSE {errors:?}");
        let bound = if types == (F16, F16) { BOUND } else { BOUND_OF_CODES };
        assert!(errors.iter().all(|error| *error < bound), "{heads:?} {types:?}: NMSE {errors:?}");
    }
}

/// Sequences of lengths of their own, a row each at a time, more than there are in a step of few rows.
#[test]
fn many_sequences_with_a_row_each_give_what_each_gives_alone() {
    let tiny = synthetic::find("tiny").unwrap();
    let shape = synthetic::Shape { n_vocab: 640, ..*tiny };
    let gguf = shape.model(recipe::find("Q8_0").unwrap()).unwrap();
    let ids: Vec<u32> = (0..200).map(|i| (i * 37 + 5) % 640).collect();
    let seqs = 17;
    for (cache, matrices, bound) in [(CacheType::F32, false, 1e-8), (CacheType::F16, true, BOUND)] {
        let options = Options { debug: Debug { matrices, ..exact() }, n_seqs: seqs, n_ctx: Some(64), ..options(cache) };
        let Some(mut runner) = vulkan(&gguf, options) else { return };
        if matrices && !runner.attends_many_by_matrices() {
            println!("skipped: {} has no cooperative matrices held as attention expects", runner.device());
            return;
        }
        let prompt = |seq: u32| &ids[seq as usize..2 * seq as usize + 9];
        let mut alone = Vec::new();
        for seq in 0..seqs {
            let prompt = prompt(seq);
            runner.run(&rows(seq, 0, prompt), Want::Ids).unwrap();
            for step in 0..2 {
                let out = runner.run(&rows(seq, prompt.len() + step, &ids[step..step + 1]), Want::Logits).unwrap();
                alone.push(out.logits);
            }
            runner.forget(seq, prompt.len() as u32);
        }
        for step in 0..2 {
            let row = |seq| rows(seq, prompt(seq).len() + step, &ids[step..step + 1]);
            let together = runner.run(&(0..seqs).flat_map(row).collect::<Vec<_>>(), Want::Logits).unwrap().logits;
            for (seq, found) in together.chunks(together.len() / seqs as usize).enumerate() {
                let error = nmse(found, &alone[2 * seq + step]);
                assert!(error < bound, "{cache:?}, sequence {seq}, step {step}: NMSE {error:e}");
            }
        }
        assert_silent(&runner);
    }
}

/// Answers that go on beside the part of a prompt, in the order in which they attend each by itself, and in one in which they do not.
#[test]
fn single_rows_beside_a_prompt_give_what_each_gives_alone() {
    let tiny = synthetic::find("tiny").unwrap();
    let shape = synthetic::Shape { n_vocab: 640, ..*tiny };
    let gguf = shape.model(recipe::find("Q8_0").unwrap()).unwrap();
    let ids: Vec<u32> = (0..200).map(|i| (i * 37 + 5) % 640).collect();
    let (seqs, long) = (3u32, 19);
    for (cache, matrices, bound) in [(CacheType::F32, false, 1e-8), (CacheType::F16, true, BOUND)] {
        let debug = Debug { matrices, ..exact() };
        let options = Options { debug, n_seqs: seqs + 1, n_ctx: Some(64), ..options(cache) };
        let Some(mut runner) = vulkan(&gguf, options) else { return };
        let held = |seq: u32| 40 * seq as usize % 50 + 1;
        let fed = |runner: &mut pumex::engine::VulkanRunner, steps: &[Vec<Row>]| {
            (0..=seqs).for_each(|seq| {
                runner.forget(seq, 0);
            });
            (0..=seqs).for_each(|seq| drop(runner.run(&rows(seq, 0, &ids[..held(seq)]), Want::Ids).unwrap()));
            steps.iter().map(|step| runner.run(step, Want::Logits).unwrap().logits).collect::<Vec<_>>()
        };
        let single: Vec<Vec<Row>> = (0..seqs).map(|seq| rows(seq, held(seq), &ids[100..101])).collect();
        let prompt = rows(seqs, held(seqs), &ids[120..120 + long]);
        let alone = fed(&mut runner, &[single.clone(), vec![prompt.clone()]].concat()).concat();
        let first = fed(&mut runner, &[[single.concat(), prompt.clone()].concat()]).concat();
        let last = fed(&mut runner, &[[prompt, single.concat()].concat()]).concat();
        let n = 640 * seqs as usize;
        for (order, found) in [("first", first), ("last", [&last[last.len() - n..], &last[..last.len() - n]].concat())]
        {
            let error = nmse(&found, &alone);
            assert!(error < bound, "{cache:?}, {order}: NMSE {error:e}");
        }
        assert_silent(&runner);
    }
}
