//! Where a step's time goes: per op and layer its bytes, operations, time and rates, beside what the device can do.
//!
//! Steps with a time stamp behind every op alternate with steps without. Both kinds are averaged over their middle half, so
//! that the times of the ops add up to the step's; what the stamps cost is the difference of the two, and is taken off
//! every op in equal parts, of short ones at most half. Every op has dispatches of its own in both; where decoding lets one
//! dispatch do several products, steps of a third kind tell what that saves.

mod clock;
pub mod work;

pub use clock::{OnCpu, StepTimes, StepTiming, TimedRunner};

use crate::bandwidth::Bandwidth;
use crate::conversation::{rows, run_chunks};
use crate::cpu::Rates;
use crate::exec::StampedOp;
use pumex_gguf::{Error, Result};
use pumex_step::sample::rng::Rng;
use pumex_step::sample::{Allowed, SampleRequest};
use pumex_step::RowOutput;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use work::{works, OpBytes, OpWork, ProfiledStep};

/// What starting a dispatch and waiting for it costs, microseconds: no op can be faster, however few its bytes. It is what
/// a token of hundreds of small dispatches took beyond its bytes on an H200 (`benches/archive/decode.md`).
pub const DISPATCH_US: f64 = 2.7;
/// Ops slower than so many times their floor are flagged.
pub const FLAG_OVER: f64 = 2.0;
/// Steps of each kind before the clock counts: pipelines are built, clocks rise.
const WARM_UP: usize = 3;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ProfileOptions {
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

/// What a device does at the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// Bytes per second of its memory.
    pub bandwidth: Bandwidth,
    /// Operations per second of its instructions; none where only memory was measured.
    pub compute: Option<Compute>,
    /// What starting a dispatch, or a loop of all threads, takes, microseconds.
    pub start_us: f64,
}

/// Measured operations per second, two for a product that is added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compute {
    /// Operations per second with floats.
    pub floats: f64,
    /// Operations per second with bytes, with which quantized weights multiply.
    pub bytes: f64,
}

impl Roof {
    /// The roof of a GPU.
    pub fn gpu(bandwidth: Bandwidth) -> Roof {
        Roof { bandwidth, compute: None, start_us: DISPATCH_US }
    }

    /// The roof of the CPU.
    pub fn cpu(rates: Rates) -> Roof {
        Roof {
            bandwidth: Bandwidth { read: rates.read, copy: rates.copy },
            compute: Some(Compute { floats: rates.fma, bytes: rates.dot }),
            start_us: rates.start * 1e6,
        }
    }

    /// The least time of an op, microseconds: of its bytes or, where that is known and longer, of its operations.
    fn floor_us(&self, work: &OpWork, dispatches: u64) -> f64 {
        let rate = self.compute.map(|c| if work.quantized { c.bytes } else { c.floats });
        let moved = work.parts.all() as f64 / self.bandwidth.read;
        moved.max(rate.map_or(0.0, |rate| work.flops as f64 / rate)) * 1e6 + dispatches as f64 * self.start_us
    }
}

/// Bytes, operations and time of an op, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Bytes that must be moved.
    pub bytes: u64,
    /// Operations of products, two for a product that is added.
    pub flops: u64,
    /// Dispatches; on the CPU one for each op.
    pub dispatches: u64,
    /// Time, microseconds.
    pub us: f64,
    /// Bytes by time, in 10^9 per second.
    pub gb_per_s: f64,
    /// Operations by time, in 10^9 per second: of floats, and on the CPU with quantized weights of bytes.
    pub gflop_per_s: f64,
    /// Bytes per second, as a share of what memory reads.
    pub share: f64,
    /// Least time of the bytes or, if it is longer, of the operations, as far as they were measured, and of the dispatches.
    pub floor_us: f64,
    /// Time by floor.
    pub times_floor: f64,
    /// Whether that is over [`FLAG_OVER`].
    pub over_floor: bool,
}

/// What costs are the sums of.
#[derive(Clone, Copy, Default)]
struct Sums {
    bytes: u64,
    flops: u64,
    dispatches: u64,
    us: f64,
    floor_us: f64,
}

impl Cost {
    fn new(Sums { bytes, flops, dispatches, us, floor_us }: Sums, read: f64) -> Cost {
        let per_s = |count: u64| if us > 0.0 { count as f64 / us / 1e3 } else { 0.0 };
        let (gb_per_s, gflop_per_s) = (per_s(bytes), per_s(flops));
        let times_floor = us / floor_us;
        let (share, over_floor) = (gb_per_s * 1e9 / read, times_floor > FLAG_OVER);
        Cost { bytes, flops, dispatches, us, gb_per_s, gflop_per_s, share, floor_us, times_floor, over_floor }
    }

    fn sums<'a>(costs: impl Iterator<Item = &'a Cost>) -> Sums {
        costs.fold(Sums::default(), |all, c| Sums {
            bytes: all.bytes + c.bytes,
            flops: all.flops + c.flops,
            dispatches: all.dispatches + c.dispatches,
            us: all.us + c.us,
            floor_us: all.floor_us + c.floor_us,
        })
    }

    fn sum<'a>(costs: impl Iterator<Item = &'a Cost>, read: f64) -> Cost {
        Cost::new(Cost::sums(costs), read)
    }
}

/// One op of the step.
#[derive(Clone, Debug, Serialize)]
pub struct OpCost {
    /// What it is and what its bytes are.
    #[serde(flatten)]
    pub work: OpWork,
    /// Bytes and time.
    #[serde(flatten)]
    pub cost: Cost,
}

/// All ops of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct OpTotals {
    /// The op and those merged into it: see [`OpWork::op`].
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
pub struct LayerTotals {
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
    /// What the device does at the most.
    #[serde(flatten)]
    pub roof: Roof,
    /// Time of the step without stamps; of a GPU, its own.
    pub token_us: f64,
    /// Time of the step without stamps, microseconds, with products that follow each other in one dispatch, as decoding does it; none
    /// where it does not.
    pub megakernel_us: Option<f64>,
    /// Time of the step with a stamp behind every op, microseconds.
    pub stamped_us: f64,
    /// What a stamp was found to cost, which is taken off every op (at most half of it).
    pub stamp_us: f64,
    /// Time of the ops together.
    pub ops_us: f64,
    /// The step's bytes, and what they are.
    pub parts: OpBytes,
    /// The step, by its time without stamps.
    #[serde(flatten)]
    pub cost: Cost,
    /// In order.
    pub ops: Vec<OpCost>,
    /// In order of first appearance.
    pub kinds: Vec<OpTotals>,
    /// In order.
    pub layers: Vec<LayerTotals>,
}

/// Fills the cache and measures. `progress` gets what is done and what there is to do; none when `stop` was set.
///
/// # Errors
/// More rows or positions than the runner holds, a device without time stamps, a lost device.
pub fn measure(
    of: &mut dyn TimedRunner,
    options: ProfileOptions,
    roof: Roof,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<Profile>> {
    let ProfileOptions { rows: n, depth, repetitions, parallel, .. } = options;
    let sequences = if parallel { n } else { 1 };
    let request = SampleRequest { options: Arc::default(), recent: Vec::new(), unit: 0.5, allowed: Allowed::All };
    let output = if options.draw { RowOutput::Sample(request) } else { RowOutput::Id };
    let ways = [StepTiming::Plain, StepTiming::Stamped, StepTiming::Merged];
    let ways = &ways[..if of.merges() && n == 1 { 3 } else { 2 }];
    let steps = ways.len() * (WARM_UP + repetitions);
    let chunks = sequences * depth.div_ceil(of.runner().max_rows().max(1));
    let mut rng = Rng::new(1);
    let vocab = of.runner().n_vocab() as u32;
    let mut text = |count: usize| -> Vec<u32> { (0..count).map(|_| rng.next_below(vocab)).collect() };
    let mut done = 0;
    for seq in 0..sequences as u32 {
        let mut fill = rows(&text(depth), 0, |_| RowOutput::None);
        fill.iter_mut().for_each(|row| row.seq = seq);
        let filled = run_chunks(of.runner(), &fill, stop, &mut |_| {
            done += 1;
            progress(done, chunks + steps);
            Ok(())
        })?;
        if !filled {
            return Ok(None);
        }
    }
    let (mut plain, mut stamped, mut merged): (Vec<f64>, Vec<StepSample>, Vec<f64>) = Default::default();
    let mut stamped_plan = None;
    for i in 0..steps {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let way = ways[i % ways.len()];
        (0..sequences as u32).for_each(|seq| _ = of.runner().forget(seq, depth as u32));
        of.clock(Some(way));
        let wanted = |row: usize| if parallel || row + 1 == n { output.clone() } else { RowOutput::None };
        let mut step = rows(&text(n), depth, wanted);
        if parallel {
            step.iter_mut().zip(0..).for_each(|(row, seq)| (row.seq, row.pos) = (seq, depth as u32));
        }
        let ticket = of.runner().start(&step)?;
        of.runner().finish(ticket)?;
        let time = of.last();
        match way {
            _ if i < ways.len() * WARM_UP => {}
            StepTiming::Plain => plain.push(time.us),
            StepTiming::Stamped => {
                stamped.push((time.us, time.ends));
                stamped_plan = time.plan;
            }
            StepTiming::Merged => merged.push(time.us),
        }
        progress(chunks + i + 1, chunks + steps);
    }
    of.clock(None);
    if plain.iter().any(|us| *us <= 0.0) || stamped.iter().any(|(_, ends)| ends.is_empty()) {
        return Err(Error::Device(format!("{}: expected time stamps, found none", of.runner().device())));
    }
    let step = ProfiledStep { rows: n, depth, cache: of.cache_types(), parallel };
    let ran: Vec<usize> = stamped[0].1.iter().map(|(s, _)| s.op).collect();
    let works = works(stamped_plan.as_deref().unwrap_or(of.plan()), &ran, step, &|w| of.weight_bytes(w));
    let mut found = summary(options, roof, plain, stamped, works);
    merged.sort_by(f64::total_cmp);
    let merged = middle(&merged);
    found.megakernel_us = (!merged.is_empty()).then(|| merged.iter().sum::<f64>() / merged.len() as f64);
    Ok(Some(found))
}

/// A step's time, and when each of its ops had ended.
type StepSample = (f64, Vec<(StampedOp, f64)>);

/// The middle half of what is sorted.
fn middle<T>(sorted: &[T]) -> &[T] {
    let cut = sorted.len() / 4;
    &sorted[cut..sorted.len() - cut]
}

fn summary(
    options: ProfileOptions,
    roof: Roof,
    mut plain: Vec<f64>,
    mut stamped: Vec<StepSample>,
    works: Vec<OpWork>,
) -> Profile {
    plain.sort_by(f64::total_cmp);
    stamped.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (plain, stamped) = (middle(&plain), middle(&stamped));
    let mean = |sum: f64| sum / stamped.len() as f64;
    let token_us = plain.iter().sum::<f64>() / plain.len() as f64;
    let stamped_us = mean(stamped.iter().map(|s| s.0).sum());
    let stamp_us = ((stamped_us - token_us) / works.len() as f64).max(0.0);
    let (mut before, read) = (0.0, roof.bandwidth.read);
    let mut ops = Vec::with_capacity(works.len());
    for (i, work) in works.into_iter().enumerate() {
        let end = mean(stamped.iter().map(|s| s.1[i].1).sum());
        let us = end - before;
        let us = us - stamp_us.min(us / 2.0); // what a stamp costs is an average: no op may vanish by it
        let dispatches = stamped[0].1[i].0.dispatches;
        let (bytes, flops, floor_us) = (work.parts.all(), work.flops, roof.floor_us(&work, dispatches));
        let cost = Cost::new(Sums { bytes, flops, dispatches, us, floor_us }, read);
        ops.push(OpCost { work, cost });
        before = end;
    }
    let all = Cost::sums(ops.iter().map(|op| &op.cost));
    let add = |get: fn(&OpBytes) -> u64| ops.iter().map(|op| get(&op.work.parts)).sum();
    Profile {
        rows: options.rows,
        parallel: options.parallel,
        depth: options.depth,
        roof,
        token_us,
        megakernel_us: None,
        stamped_us,
        stamp_us,
        ops_us: all.us,
        parts: OpBytes { weights: add(|b| b.weights), cache: add(|b| b.cache), activations: add(|b| b.activations) },
        cost: Cost::new(Sums { us: token_us, ..all }, read),
        kinds: kinds(&ops, read),
        layers: layers(&ops, read),
        ops,
    }
}

fn kinds(ops: &[OpCost], read: f64) -> Vec<OpTotals> {
    let mut out: Vec<OpTotals> = Vec::new();
    for op in ops {
        let (name, types) = (&op.work.op, &op.work.types);
        match out.iter_mut().find(|k| k.op == *name && k.types == *types) {
            Some(kind) => {
                kind.count += 1;
                kind.cost = Cost::sum([&kind.cost, &op.cost].into_iter(), read);
            }
            None => out.push(OpTotals { op: name.clone(), types: types.clone(), count: 1, cost: op.cost }),
        }
    }
    out
}

fn layers(ops: &[OpCost], read: f64) -> Vec<LayerTotals> {
    let mut out: Vec<LayerTotals> = Vec::new();
    for op in ops {
        let name = match op.work.layer {
            Some(layer) => layer.to_string(),
            None if out.iter().all(|l| l.layer == "embedding") => "embedding".into(),
            None => "head".into(),
        };
        match out.last_mut().filter(|l| l.layer == name) {
            Some(layer) => layer.cost = Cost::sum([&layer.cost, &op.cost].into_iter(), read),
            None => out.push(LayerTotals { layer: name, cost: op.cost }),
        }
    }
    out
}
