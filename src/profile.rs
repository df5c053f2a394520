//! Where a step's GPU time goes: per op and layer its bytes, time and bytes per second, beside what the memory can do.
//!
//! Steps with a time stamp behind every op alternate with steps without. Both kinds are averaged over their middle half, so
//! that the times of the ops add up to the step's; what the stamps cost is the difference of the two, and is taken off
//! every op in equal parts, of short ones at most half. Every op has dispatches of its own in both; where decoding lets one
//! dispatch do several products, steps of a third kind tell what that saves.

pub mod work;

use crate::conversation::{rows, run_chunks};
use crate::engine::bandwidth::Bandwidth;
use crate::engine::VulkanRunner;
use crate::exec::Stamped;
use crate::sample::{rng::Rng, SampleRequest};
use crate::step::{RowOutput, Runner};
use crate::{Error, Result};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use work::{works, Bytes, Step, Work};

/// What starting a dispatch and waiting for it costs, microseconds: no op can be faster, however few its bytes. It is what
/// a token of hundreds of small dispatches took beyond its bytes on the GPU of benches/RECORD.md.
pub const DISPATCH_US: f64 = 2.7;
/// Ops slower than so many times their floor are flagged.
pub const FLAG_OVER: f64 = 2.0;
/// Steps of each kind before the clock counts: pipelines are built, clocks rise.
const WARM_UP: usize = 3;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rows of the step; 1 is a decode step.
    pub rows: usize,
    /// Positions in the cache before it.
    pub depth: usize,
    /// Steps of each kind.
    pub repetitions: usize,
    /// Draws the id by the default sampler chain, instead of taking that of the largest logit.
    pub draw: bool,
    /// Each row is of a sequence of its own, and its id is wanted; else all are of one, and the last one's is.
    pub parallel: bool,
}

/// Bytes and time of an op, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Bytes that must be moved.
    pub bytes: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// GPU time, microseconds.
    pub us: f64,
    /// Bytes by time, in 10^9 per second.
    pub gb_per_s: f64,
    /// Of that, how much of what memory reads.
    pub share: f64,
    /// Time of the bytes at the speed of memory, and of the dispatches.
    pub floor_us: f64,
    /// Time by floor.
    pub times_floor: f64,
    /// Whether that is over [`FLAG_OVER`].
    pub over_floor: bool,
}

impl Cost {
    fn new(bytes: u64, dispatches: u64, us: f64, read: f64) -> Cost {
        let gb_per_s = if us > 0.0 { bytes as f64 / us / 1e3 } else { 0.0 };
        let floor_us = bytes as f64 / read * 1e6 + dispatches as f64 * DISPATCH_US;
        let times_floor = us / floor_us;
        let (share, over_floor) = (gb_per_s * 1e9 / read, times_floor > FLAG_OVER);
        Cost { bytes, dispatches, us, gb_per_s, share, floor_us, times_floor, over_floor }
    }

    fn sum<'a>(costs: impl Iterator<Item = &'a Cost>, read: f64) -> Cost {
        let (bytes, dispatches, us) =
            costs.fold((0, 0, 0.0), |(b, d, us), c| (b + c.bytes, d + c.dispatches, us + c.us));
        Cost::new(bytes, dispatches, us, read)
    }
}

/// One op of the step.
#[derive(Clone, Debug, Serialize)]
pub struct OpCost {
    /// What it is and what its bytes are.
    #[serde(flatten)]
    pub work: Work,
    /// Bytes and time.
    #[serde(flatten)]
    pub cost: Cost,
}

/// All ops of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// See [`Work::op`].
    pub op: String,
    /// Types of the matrices.
    pub types: String,
    /// How many.
    pub count: usize,
    /// Together.
    #[serde(flatten)]
    pub cost: Cost,
}

/// All ops of a layer.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// Which: a number, `embedding` or `head`.
    pub layer: String,
    /// Together.
    #[serde(flatten)]
    pub cost: Cost,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Rows of the step.
    pub rows: usize,
    /// Each row is of a sequence of its own.
    pub parallel: bool,
    /// Positions in the cache before it.
    pub depth: usize,
    /// What the device's memory does.
    pub bandwidth: Bandwidth,
    /// GPU time of the step without stamps.
    pub token_us: f64,
    /// Likewise, with products that follow each other in one dispatch, as decoding does it; none where it does not.
    pub megakernel_us: Option<f64>,
    /// Likewise, with a stamp behind every op.
    pub stamped_us: f64,
    /// What a stamp was found to cost, which is taken off every op (at most half of it).
    pub stamp_us: f64,
    /// GPU time of the ops together.
    pub ops_us: f64,
    /// The step's bytes, and what they are.
    pub parts: Bytes,
    /// The step, by its time without stamps.
    #[serde(flatten)]
    pub cost: Cost,
    /// In order.
    pub ops: Vec<OpCost>,
    /// In order of first appearance.
    pub kinds: Vec<Kind>,
    /// In order.
    pub layers: Vec<Layer>,
}

/// Fills the cache and measures. `progress` gets what is done and what there is to do; none when `stop` was set.
///
/// # Errors
/// More rows or positions than the runner holds, a device without time stamps, a lost device.
pub fn measure(
    runner: &mut VulkanRunner,
    options: Options,
    bandwidth: Bandwidth,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<Profile>> {
    let Options { rows: n, depth, repetitions, parallel, .. } = options;
    let sequences = if parallel { n } else { 1 };
    let request = SampleRequest { options: Arc::default(), recent: Vec::new(), unit: 0.5 };
    let output = if options.draw { RowOutput::Sample(request) } else { RowOutput::Id };
    let kinds = if runner.has_megakernel() && n == 1 { 3 } else { 2 };
    let steps = kinds * (WARM_UP + repetitions);
    let chunks = sequences * depth.div_ceil(runner.max_rows().max(1));
    let mut rng = Rng::new(1);
    let vocab = runner.n_vocab() as u32;
    let mut text = |count: usize| -> Vec<u32> { (0..count).map(|_| rng.below(vocab)).collect() };
    let mut done = 0;
    for seq in 0..sequences as u32 {
        let mut fill = rows(&text(depth), 0, |_| RowOutput::None);
        fill.iter_mut().for_each(|row| row.seq = seq);
        let filled = run_chunks(runner, &fill, stop, &mut |_| {
            done += 1;
            progress(done, chunks + steps);
            Ok(())
        })?;
        if !filled {
            return Ok(None);
        }
    }
    runner.time_steps(true);
    let (mut plain, mut stamped, mut megakernel): (Vec<f64>, Vec<Sample>, Vec<f64>) = Default::default();
    let mut stamped_plan = None;
    for i in 0..steps {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        (0..sequences as u32).for_each(|seq| runner.forget(seq, depth as u32));
        runner.stamp_ops(i % kinds == 1);
        runner.use_megakernel(i % kinds == 2);
        let of = |row: usize| if parallel || row + 1 == n { output.clone() } else { RowOutput::None };
        let mut step = rows(&text(n), depth, of);
        if parallel {
            step.iter_mut().zip(0..).for_each(|(row, seq)| (row.seq, row.pos) = (seq, depth as u32));
        }
        let ticket = runner.start(&step)?;
        runner.finish(ticket)?;
        let time = runner.last_step();
        match i % kinds {
            _ if i < kinds * WARM_UP => {}
            0 => plain.push(time.gpu_us),
            1 => {
                stamped.push((time.gpu_us, time.ends_us.clone()));
                stamped_plan.clone_from(&time.plan);
            }
            _ => megakernel.push(time.gpu_us),
        }
        progress(chunks + i + 1, chunks + steps);
    }
    runner.stamp_ops(false);
    runner.time_steps(false);
    runner.use_megakernel(true);
    if plain.iter().any(|us| *us <= 0.0) || stamped.iter().any(|(_, ends)| ends.is_empty()) {
        return Err(Error::Device(format!("{}: expected time stamps, found none", runner.device())));
    }
    let step = Step { rows: n, depth, cache: runner.cache_types(), parallel };
    let ran: Vec<usize> = stamped[0].1.iter().map(|(s, _)| s.op).collect();
    let plan = stamped_plan.as_deref().unwrap_or(runner.plan());
    let mut found = summary(options, bandwidth, plain, stamped, works(plan, &ran, step));
    megakernel.sort_by(f64::total_cmp);
    let megakernel = middle(&megakernel);
    found.megakernel_us = (!megakernel.is_empty()).then(|| megakernel.iter().sum::<f64>() / megakernel.len() as f64);
    Ok(Some(found))
}

/// A step's GPU time, and when each of its ops had ended.
type Sample = (f64, Vec<(Stamped, f64)>);

/// The middle half of what is sorted.
fn middle<T>(sorted: &[T]) -> &[T] {
    let cut = sorted.len() / 4;
    &sorted[cut..sorted.len() - cut]
}

fn summary(
    options: Options,
    bandwidth: Bandwidth,
    mut plain: Vec<f64>,
    mut stamped: Vec<Sample>,
    works: Vec<Work>,
) -> Profile {
    plain.sort_by(f64::total_cmp);
    stamped.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (plain, stamped) = (middle(&plain), middle(&stamped));
    let mean = |sum: f64| sum / stamped.len() as f64;
    let token_us = plain.iter().sum::<f64>() / plain.len() as f64;
    let stamped_us = mean(stamped.iter().map(|s| s.0).sum());
    let stamp_us = ((stamped_us - token_us) / works.len() as f64).max(0.0);
    let mut before = 0.0;
    let mut ops = Vec::with_capacity(works.len());
    for (i, work) in works.into_iter().enumerate() {
        let end = mean(stamped.iter().map(|s| s.1[i].1).sum());
        let us = end - before;
        let us = us - stamp_us.min(us / 2.0); // what a stamp costs is an average: no op may vanish by it
        let cost = Cost::new(work.parts.all(), stamped[0].1[i].0.dispatches, us, bandwidth.read);
        ops.push(OpCost { work, cost });
        before = end;
    }
    let all = Cost::sum(ops.iter().map(|op| &op.cost), bandwidth.read);
    let add = |get: fn(&Bytes) -> u64| ops.iter().map(|op| get(&op.work.parts)).sum();
    Profile {
        rows: options.rows,
        parallel: options.parallel,
        depth: options.depth,
        bandwidth,
        token_us,
        megakernel_us: None,
        stamped_us,
        stamp_us,
        ops_us: all.us,
        parts: Bytes { weights: add(|b| b.weights), cache: add(|b| b.cache), activations: add(|b| b.activations) },
        cost: Cost::new(all.bytes, all.dispatches, token_us, bandwidth.read),
        kinds: kinds(&ops, bandwidth.read),
        layers: layers(&ops, bandwidth.read),
        ops,
    }
}

fn kinds(ops: &[OpCost], read: f64) -> Vec<Kind> {
    let mut out: Vec<Kind> = Vec::new();
    for op in ops {
        let (name, types) = (&op.work.op, &op.work.types);
        match out.iter_mut().find(|k| k.op == *name && k.types == *types) {
            Some(kind) => {
                kind.count += 1;
                kind.cost = Cost::sum([&kind.cost, &op.cost].into_iter(), read);
            }
            None => out.push(Kind { op: name.clone(), types: types.clone(), count: 1, cost: op.cost }),
        }
    }
    out
}

fn layers(ops: &[OpCost], read: f64) -> Vec<Layer> {
    let mut out: Vec<Layer> = Vec::new();
    for op in ops {
        let name = match op.work.layer {
            Some(layer) => layer.to_string(),
            None if out.iter().all(|l| l.layer == "embedding") => "embedding".into(),
            None => "head".into(),
        };
        match out.last_mut().filter(|l| l.layer == name) {
            Some(layer) => layer.cost = Cost::sum([&layer.cost, &op.cost].into_iter(), read),
            None => out.push(Layer { layer: name, cost: op.cost }),
        }
    }
    out
}
