//! Steps of one row ask for no memory once a sequence is under way, but for what they hand out.

use crate::seeded::Recipe;
use crate::util::{demo_path, fixture, rows};
use pumex::cpu::{Fast, FastSettings, RunnerSizes};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex_cpu::allocations::so_far;
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;

/// What steps 8 to 23 of a sequence ask for, by a runner of one thread: how often, and bytes in all.
fn steady(gguf: &Gguf) -> (usize, usize) {
    let plan = model::plan(gguf).unwrap();
    let kind = Elements::Floats(Float::F16);
    let sizes = RunnerSizes { n_ctx: 64, n_seqs: 1, max_rows: 8, cache_positions: None, k: kind, v: kind };
    let settings = FastSettings { threads: Some(1), ..FastSettings::default() };
    let mut runner = Fast::new(gguf, plan, sizes, &settings).unwrap();
    runner.run(&rows(0, 0, &[3, 1, 4]), Want::Ids).unwrap();
    let mut step = |pos| {
        let row = Row { seq: 0, pos, token: Token::Sampled, output: RowOutput::Id, medium: None };
        let ticket = runner.start(&[row]).unwrap();
        runner.finish(ticket).unwrap()
    };
    (3..8).for_each(|pos| drop(step(pos)));
    let before = so_far();
    (8..24).for_each(|pos| drop(step(pos)));
    let after = so_far();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn steps_of_a_sequence_under_way_ask_for_no_memory() {
    let before = so_far();
    drop(std::hint::black_box(vec![0u8; 100]));
    assert!(so_far().1 - before.1 >= 100, "they would be seen");
    let files = [demo_path(), fixture("qwen3moe").with_extension("gguf")].map(|path| Gguf::open(&path).unwrap());
    let seeded =
        ["gemma3", "bloom", "deepseek2", "lfm2", "mamba2", "qwen3next", "rwkv6", "rwkv7", "gpt-oss", "hunyuan-moe"];
    let made = seeded.map(|name| (name, Recipe::recipe_of(name).gguf(name)));
    let all = ["demo", "qwen3moe"].into_iter().zip(&files).chain(made.iter().map(|(name, gguf)| (*name, gguf)));
    for (name, gguf) in all {
        let (count, bytes) = steady(gguf);
        println!("{name}: {count} times, {bytes} bytes in 16 steps");
        // The list of a step's ids.
        assert!(count <= 16 && bytes <= 16 * 16, "{name}: {count} times, {bytes} bytes in 16 steps");
    }
}
