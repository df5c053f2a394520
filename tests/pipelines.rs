//! Pipelines: none is built once a runner is said to be ready for all steps.

use crate::util::{assert_silent, demo_path, options, usual, vulkan};
use pumex::engine::CacheType;
use pumex::gguf::Gguf;
use pumex::sample::{Allowed, SampleRequest, SamplerOptions};
use pumex::step::{Row, RowOutput, Runner, Token, Want};

/// `count` rows of a sequence from `start` on, of which the last has an output.
fn rows(seq: u32, start: usize, count: usize) -> Vec<Row> {
    let row = |i: usize| Row {
        seq,
        pos: (start + i) as u32,
        token: Token::Id((7 * (start + i) as u32 + seq) % 100 + 3),
        output: if i + 1 == count { RowOutput::Id } else { RowOutput::None },
        medium: None,
    };
    (0..count).map(row).collect()
}

/// Prompts of odd lengths, single rows, batches of both sequences, mixed steps and sampled ones: a software device compiles what it
/// runs, so that there are few of them.
#[test]
fn mixed_work_builds_no_pipeline_once_all_are_built() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let sizes = pumex::engine::Options { max_rows: 32, ..usual(CacheType::F16) };
    assert_eq!(sizes.n_seqs, options(CacheType::F16).n_seqs);
    let Some(mut runner) = vulkan(&gguf, sizes) else { return };
    runner.build_all().unwrap();
    let (built, before) = (runner.pipelines(), runner.vk().counters());
    assert!(built > 20 && before.pipelines as usize >= built && before.pipeline_us > 0.0, "{built}: {before:?}");
    let mut at = [0usize; 2];
    let mut feed = |runner: &mut pumex::engine::VulkanRunner, counts: [usize; 2], draws: bool| {
        let mut all = Vec::new();
        for (seq, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            all.extend(rows(seq as u32, at[seq], count));
            at[seq] += count;
        }
        let draw = || SampleRequest {
            options: std::sync::Arc::new(SamplerOptions::default()),
            recent: vec![],
            unit: 0.5,
            allowed: Allowed::All,
        };
        let outputs = all.iter().filter(|row| row.output == RowOutput::Id).count();
        let draws: Vec<SampleRequest> = (0..if draws { outputs } else { 0 }).map(|_| draw()).collect();
        let want = if draws.is_empty() { Want::Ids } else { Want::Drawn(&draws) };
        runner.run(&all, want).unwrap();
    };
    for (counts, draws) in [
        ([21, 0], false),
        ([0, 5], false),
        ([1, 1], false),
        ([1, 1], true),
        ([3, 1], false),
        ([1, 0], true),
        ([0, 1], false),
    ] {
        feed(&mut runner, counts, draws);
    }
    // Of shapes that were all seen, on and on: what is recorded again takes what there is.
    for _ in 0..60 {
        feed(&mut runner, [1, 1], false);
        feed(&mut runner, [1, 0], false);
    }
    assert_eq!((runner.pipelines(), runner.vk().counters().pipelines), (built, before.pipelines));
    assert_silent(&runner);
}
