//! Which shapes of products are fastest on a device, measured with the steps of a model, instead of looked up.
//!
//! All products of a step try their n-th candidate at once, each op with a time stamp behind it, so that a step's worth of
//! pipelines is built for each candidate and no more. Every candidate's logits are compared with those of the table's shapes.
//! At the end whole steps by the table and by what was found alternate: what is not faster by more than their scatter is not kept.

mod kept;
pub(super) mod ways;

use super::{Options, VulkanRunner};
pub(super) use kept::gone;
pub use kept::{applied, forget, keep, known, knows, name};
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower as lower;
use pumex_lower::policy::tuned;
use pumex_lower::policy::tuned::candidates;
use pumex_model as model;
use pumex_step::sample::rng::Rng;
use pumex_step::{Row, RowOutput, Runner, Token, Want};
use pumex_vk::{Caps, Device, Tuned, TunedProduct, TunedShape};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub use ways::{Tried, Way, WaysReport};

/// Least time before the clock counts: while pipelines are built, a GPU's clocks fall.
const WARM_UP: Duration = Duration::from_millis(150);
/// Steps that count.
const STEPS: usize = 6;
/// Whole steps of each kind at the end.
const FINAL: usize = 15;
/// Squared error relative to the table's logits that is no rounding.
const MOST_ERROR: f64 = 1e-3;
/// What a shape must gain to be taken, in parts of the table's time.
const LEAST_GAIN: f64 = 0.02;
/// What a whole step must, at least.
const LEAST_STEP_GAIN: f64 = 0.005;
/// The shape from which a blind search begins.
const PLAIN: TunedShape = TunedShape { threads: 256, rows: 1, per_core: None };

/// How it is done.
#[derive(Clone, Debug)]
pub struct Search {
    /// Rows of the steps: 1, and what stands for several.
    pub rows: Vec<usize>,
    /// Stops looking after this.
    pub most: Duration,
    /// As on a device that no table is for: everything starts from one plain shape.
    pub blind: bool,
    /// Looks for other kernels, too, if time is left: see [`Way`].
    pub ways: bool,
}

impl Default for Search {
    fn default() -> Self {
        Search { rows: vec![1, tuned::columns(2)], most: Duration::from_secs(20), blind: false, ways: true }
    }
}

/// What was found for a product.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Choice {
    /// What is multiplied.
    pub product: TunedProduct,
    /// The best shape; none where what was there is as good.
    pub shape: Option<TunedShape>,
    /// Microseconds of all such ops of a step as they were, and by the best shape.
    pub us: [f64; 2],
    /// Shapes that were tried.
    pub tried: usize,
}

/// What was found for steps of so many rows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Rows of a step.
    pub rows: usize,
    /// By product.
    pub choices: Vec<Choice>,
    /// Microseconds of a step: by the table, from where the search began, and by what was found; medians.
    pub step_us: [f64; 3],
    /// The scatter of the table's, in parts of it.
    pub scatter: f64,
    /// What was found is faster than where the search began, by more than that.
    pub kept: bool,
    /// Shapes with other logits than the table's, which were left out.
    pub wrong: usize,
    /// Time ran out before all was tried.
    pub cut: bool,
}

/// What was found for a model.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Found {
    /// Shapes, for each kind of step.
    pub steps: Vec<Report>,
    /// Kernels, if they were looked for.
    pub ways: Option<WaysReport>,
}

/// Measures; `told` gets what was done and what there is to do.
///
/// # Errors
/// A model or device that does not fit, no time stamps, a lost device.
pub fn tune(
    gguf: &Gguf,
    device: Device,
    options: &Options,
    search: &Search,
    stop: &AtomicBool,
    told: &mut dyn FnMut(usize, usize),
) -> Result<Option<Found>> {
    let most = search.rows.iter().copied().max().unwrap_or(1) as u32;
    let sizes = Options { n_ctx: Some(options.n_ctx.unwrap_or(256)), n_seqs: most, ..options.clone() };
    let (begun, table) = (Instant::now(), Caps { tuned: Vec::new(), ..device.caps().clone() });
    let device = device.with_caps(table.clone());
    let mut runner = VulkanRunner::new(gguf, model::plan(gguf)?, device.clone(), &sizes, &mut |_, _| ())?;
    let mut steps = Vec::new();
    // What is left of the time, for what is left to do.
    let left = |others: usize| search.most.saturating_sub(begun.elapsed()) / others.max(1) as u32;
    let kinds = search.rows.len() + usize::from(search.ways);
    for (i, rows) in search.rows.iter().enumerate() {
        let mut bench = Bench { runner: &mut runner, table: &table, rows: *rows, stop };
        let Some(report) = bench.search(search.blind, left(kinds - i), told)? else { return Ok(None) };
        steps.push(report);
    }
    drop(runner);
    if !search.ways || left(1).is_zero() {
        return Ok(Some(Found { steps, ways: None }));
    }
    let found = ways::search(gguf, &device, options, (left(1), search.blind), stop, told)?;
    Ok(found.map(|ways| Found { steps, ways: Some(ways) }))
}

/// Microseconds by product of a step, and its logits.
struct Timed {
    by_product: BTreeMap<usize, f64>,
    logits: Vec<f32>,
}

struct Bench<'a> {
    runner: &'a mut VulkanRunner,
    table: &'a Caps,
    rows: usize,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Runs steps by these shapes from now on.
    fn by(&mut self, tuned: Vec<Tuned>) -> Result<()> {
        self.runner.choose_by(Caps { tuned, ..self.table.clone() })
    }

    /// Times steps from now on, with stamps or without, op by op; none: as usual, and does not.
    fn clock(&mut self, stamps: Option<bool>) {
        self.runner.time_steps(stamps.is_some());
        self.runner.stamp_ops(stamps == Some(true));
        self.runner.use_megakernel(stamps.is_none());
    }

    /// A step at the beginning of each sequence.
    fn step(&mut self, output: &RowOutput, want: Want) -> Result<Vec<f32>> {
        (0..self.rows as u32).for_each(|seq| _ = self.runner.forget(seq, 0));
        let (mut rng, vocab) = (Rng::new(1), self.runner.n_vocab() as u32);
        let row = |seq: usize| Row {
            seq: seq as u32,
            pos: 0,
            token: Token::Id(rng.next_below(vocab)),
            output: output.clone(),
            medium: None,
        };
        let rows: Vec<Row> = (0..self.rows).map(row).collect();
        Ok(self.runner.run(&rows, want)?.logits)
    }

    fn warm_up(&mut self) -> Result<()> {
        warm_up(|| self.step(&RowOutput::Id, Want::Ids).map(|_| ()))
    }

    /// The products of a stamped step, each with the ops that have it.
    fn products(&mut self) -> Result<Vec<(TunedProduct, Vec<usize>)>> {
        self.clock(Some(true));
        self.step(&RowOutput::Id, Want::Ids)?;
        let mut found: Vec<(TunedProduct, Vec<usize>)> = Vec::new();
        for (op, product) in self.runner.tunables()? {
            match found.iter_mut().find(|(known, _)| *known == product) {
                Some((_, ops)) if ops.contains(&op) => {}
                Some((_, ops)) => ops.push(op),
                None => found.push((product, vec![op])),
            }
        }
        Ok(found)
    }

    /// Times the products' ops, in steps as they are now.
    fn timed(&mut self, products: &[(TunedProduct, Vec<usize>)]) -> Result<Timed> {
        let mut taken: Vec<Vec<f64>> = vec![Vec::new(); products.len()];
        self.clock(Some(true));
        self.warm_up()?;
        for _ in 0..STEPS {
            self.step(&RowOutput::Id, Want::Ids)?;
            let ends = &self.runner.last_step().ends_us;
            if ends.is_empty() {
                return Err(Error::Device(format!("{}: expected time stamps, found none", self.table.name)));
            }
            let begins = std::iter::once(0.0).chain(ends.iter().map(|(_, end)| *end));
            let by_op: BTreeMap<usize, f64> =
                ends.iter().zip(begins).map(|((stamped, end), begin)| (stamped.op, end - begin)).collect();
            for ((_, ops), taken) in products.iter().zip(&mut taken) {
                taken.push(ops.iter().filter_map(|op| by_op.get(op)).sum());
            }
        }
        self.clock(None);
        let logits = self.step(&RowOutput::Logits, Want::Logits)?;
        Ok(Timed { by_product: taken.into_iter().map(median).enumerate().collect(), logits })
    }

    fn search(&mut self, blind: bool, most: Duration, told: &mut dyn FnMut(usize, usize)) -> Result<Option<Report>> {
        let begun = Instant::now();
        self.by(Vec::new())?;
        let products = self.products()?;
        let all: Vec<Vec<TunedShape>> = products.iter().map(|(p, _)| candidates(self.table, &p.kernel)).collect();
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        let table = self.timed(&products)?;
        let start = if blind { with(&products, |_| Some(PLAIN)) } else { Vec::new() };
        self.by(start.clone())?;
        let first = self.timed(&products)?;
        let mut choices: Vec<Choice> = products
            .iter()
            .enumerate()
            .map(|(i, (product, _))| {
                let us = first.by_product[&i];
                Choice { product: product.clone(), shape: None, us: [us, us], tried: 0 }
            })
            .collect();
        let (mut wrong, mut cut) = (0, false);
        for turn in 0..longest {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if begun.elapsed() > most {
                cut = true;
                break;
            }
            let shape = |i: usize| all[i].get(turn).copied();
            self.by(with(&products, shape))?;
            let found = self.timed(&products)?;
            if ways::squared_error(&found.logits, &table.logits) > MOST_ERROR {
                wrong += 1;
                continue;
            }
            for (i, choice) in choices.iter_mut().enumerate().filter(|(i, _)| shape(*i).is_some()) {
                choice.tried += 1;
                if found.by_product[&i] < choice.us[1] {
                    (choice.us[1], choice.shape) = (found.by_product[&i], shape(i));
                }
            }
            told(turn + 1, longest);
        }
        // Once more, now that clocks are surely up.
        self.by(start.clone())?;
        let again = self.timed(&products)?;
        choices.iter_mut().enumerate().for_each(|(i, c)| c.us[0] = c.us[0].min(again.by_product[&i]));
        let gains = |c: &Choice| c.us[1] < c.us[0] * (1.0 - LEAST_GAIN);
        choices.iter_mut().filter(|c| !gains(c)).for_each(|c| (c.shape, c.us[1]) = (None, c.us[0]));
        let found = with(&products, |i| choices[i].shape.or(blind.then_some(PLAIN)));
        let [table, before, after] = self.whole([Vec::new(), start, found])?;
        let scatter = (table[2] - table[0]) / table[1];
        let gain = scatter.clamp(LEAST_STEP_GAIN, LEAST_GAIN);
        let kept = choices.iter().any(|c| c.shape.is_some()) && after[1] < before[1] * (1.0 - gain);
        // What a device without a table takes from here on is what was found, and nothing else.
        if blind {
            choices.iter_mut().for_each(|c| c.shape = c.shape.or(Some(PLAIN)));
        }
        let step_us = [table[1], before[1], after[1]];
        Ok(Some(Report { rows: self.rows, choices, step_us, scatter, kept, wrong, cut }))
    }

    /// Microseconds of whole steps by each of these: the lower quartile, the median and the upper one.
    fn whole(&mut self, of: [Vec<Tuned>; 3]) -> Result<[[f64; 3]; 3]> {
        let mut taken: [Vec<f64>; 3] = Default::default();
        for _ in 0..3 {
            for (tuned, taken) in of.iter().zip(&mut taken) {
                self.by(tuned.clone())?;
                self.clock(Some(false));
                self.warm_up()?;
                for _ in 0..FINAL / 3 {
                    self.step(&RowOutput::Id, Want::Ids)?;
                    taken.push(self.runner.last_step().gpu_us);
                }
                self.clock(None);
            }
        }
        Ok(taken.map(|mut taken| {
            taken.sort_by(f64::total_cmp);
            [1, 2, 3].map(|quarter| taken[(taken.len() * quarter / 4).min(taken.len() - 1)])
        }))
    }
}

/// Shapes of products; none for those that are to be as in the table.
fn with(products: &[(TunedProduct, Vec<usize>)], shape: impl Fn(usize) -> Option<TunedShape>) -> Vec<Tuned> {
    let one = |(i, (product, _)): (usize, &(TunedProduct, Vec<usize>))| {
        shape(i).map(|shape| Tuned { product: product.clone(), shape })
    };
    products.iter().enumerate().filter_map(one).collect()
}

/// Steps, two at least, until the device's clocks are up.
fn warm_up(mut step: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    step()?;
    step()?;
    while begun.elapsed() < WARM_UP {
        step()?;
    }
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::MAX)
}

impl VulkanRunner {
    /// Has shapes of kernels chosen by other capabilities from the next step on; nothing may be in flight.
    fn choose_by(&mut self, caps: Caps) -> Result<()> {
        self.recordings.retain(|_| false);
        let model = std::sync::Arc::get_mut(&mut self.model);
        let model = model.ok_or_else(|| Error::Request("a model that others run is not tuned".into()))?;
        model.program.device = model.program.device.with_caps(caps);
        Ok(())
    }

    /// Products of the last stamped step whose shapes can be tuned, each with its op.
    fn tunables(&self) -> Result<Vec<(usize, TunedProduct)>> {
        let program = &self.model.program;
        let Some(shape) = self.recordings.keys().find(|shape| shape.stamps).copied() else { return Ok(Vec::new()) };
        let at = program.addresses(Some(&self.model.weights), &self.state, shape.slot);
        let target = program.target(&at, &self.state);
        Ok(lower::lower(&target, shape)?.tunables(target.caps))
    }
}
