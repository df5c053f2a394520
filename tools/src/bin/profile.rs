//! Where a step's GPU time goes, by kind of op: microseconds, weight bytes, GB/s.
//!
//! usage: `profile MODEL.gguf [ROWS [DEPTH [TOP_K]]]`; ROWS is 1 for decode (the default), more for a prompt's chunk. With
//! TOP_K ids are drawn by the default chain with so many candidates, else they are greedy.

use pumex::engine::{self, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::plan::{Op, Plan, Weight};
use pumex::sample::{Draw, SamplerOptions};
use pumex::step::{Row, Runner, Token, Want};
use pumex::vk;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Steps whose fastest time per op counts: of decode, and of a prompt's chunk.
const STEPS: (usize, usize) = (20, 3);

fn describe(plan: &Plan, op: &Op) -> (String, u64) {
    let bytes = |ws: &[Weight]| ws.iter().map(|w| plan.weights[w.0].len_bytes()).sum::<u64>();
    match op {
        Op::Embed { .. } => ("embed".into(), 0),
        Op::RmsNorm { .. } => ("rms_norm".into(), 0),
        Op::MatMul { parts, .. } => {
            let info = &plan.weights[parts[0].weight.0];
            let name = info.name.rsplit('.').nth(1).unwrap_or(&info.name);
            let kinds: Vec<&str> = parts.iter().map(|p| plan.weights[p.weight.0].format.name).collect();
            (format!("matmul {name} {}", kinds.join("+")), bytes(&parts.iter().map(|p| p.weight).collect::<Vec<_>>()))
        }
        Op::GatedMatMul { gate, up, .. } => ("gate+up+glu".into(), bytes(&[gate.weight, up.weight])),
        Op::Route { .. } => ("route".into(), 0),
        Op::GatedExperts { gate, up, chosen, .. } => {
            ("experts gate+up+glu".into(), bytes(&[*gate, *up]) / chosen.experts as u64 * chosen.used as u64)
        }
        Op::ExpertsAdd { down, chosen, .. } => {
            ("experts down".into(), bytes(&[*down]) / chosen.experts as u64 * chosen.used as u64)
        }
        Op::RopeKv { .. } => ("rope+kv".into(), 0),
        Op::Attend { .. } => ("attend".into(), 0),
        Op::Sample { .. } => ("sample".into(), 0),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let file = args.first().ok_or("usage: profile MODEL.gguf [ROWS [DEPTH [TOP_K]]]")?;
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |s| s.parse());
    let (n, depth, top_k) = (number(1, 1)?, number(2, 0)?, number(3, 0)?);
    let chain = SamplerOptions { top_k: i32::try_from(top_k)?, repeat_penalty: 1.1, ..Default::default() };
    let draws = [Draw { options: Arc::new(chain), recent: (0..64).collect(), unit: 0.5 }];
    let want = if top_k > 0 { Want::Drawn(&draws) } else { Want::Ids };
    let steps = if n <= 8 { STEPS.0 } else { STEPS.1 };
    let gguf = Gguf::open(Path::new(file))?;
    let device = vk::Device::open(&vk::Options::default())?;
    let options = Options { n_ctx: Some((depth + n * (steps + 2)) as u32), ..Options::default() };
    let mut runner = VulkanRunner::new(&gguf, model::plan(&gguf)?, device, &options, &mut |_, _| ())?;
    runner.enable_profile();
    let step = |at: usize, n: usize| -> Vec<Row> {
        let row = |i| Row { seq: 0, pos: (at + i) as u32, token: Token::Id((i % 100) as u32), wanted: i + 1 == n };
        (0..n).map(row).collect()
    };
    let mut at = 0;
    while at < depth {
        let chunk = runner.max_rows().min(depth - at);
        runner.run(&step(at, chunk), Want::Ids)?;
        at += chunk;
    }
    let mut best = vec![f64::INFINITY; runner.plan().ops.len()];
    let mut whole = f64::INFINITY;
    for _ in 0..steps {
        runner.run(&step(at, n), want)?;
        at += n;
        let mut before = 0.0;
        for (best, end) in best.iter_mut().zip(runner.op_ends_us()) {
            *best = best.min(end - before);
            before = *end;
        }
        whole = whole.min(before);
    }
    let mut kinds: BTreeMap<String, (usize, f64, u64)> = BTreeMap::new();
    for (op, us) in runner.plan().ops.iter().zip(&best) {
        let (name, bytes) = describe(runner.plan(), op);
        let entry = kinds.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1 + us, entry.2 + bytes);
    }
    let read = engine::bandwidth::measure(runner.vk())?.read;
    let share = |bytes: u64, us: f64| 100.0 * bytes as f64 / (us * 1e-6) / read;
    let all: u64 = kinds.values().map(|k| k.2).sum();
    println!("{}: {n} rows at depth {depth}, step {whole:.1} us", runner.device());
    println!("memory reads at {:.0} GB/s; the step's weights at {:.1} % of it", read / 1e9, share(all, whole));
    println!("{:<34} {:>5} {:>10} {:>8} {:>8} {:>6}", "op", "count", "us", "MB", "GB/s", "share");
    for (name, (count, us, bytes)) in kinds {
        let (mb, rate) = (bytes as f64 / 1e6, bytes as f64 / us / 1e3);
        println!("{name:<34} {count:>5} {us:>10.1} {mb:>8.1} {rate:>8.1} {:>5.1}%", share(bytes, us));
    }
    Ok(())
}
