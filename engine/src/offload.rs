//! A model of which a part runs on the CPU and the rest on a GPU: for GPUs that have no room for all of it.
//!
//! The parts are runners of plans of their own ([`Plan::segments`]), each with its layers' state, in a chain that changes devices
//! from one to the next. A step goes through all of them; the rows in between are copied once.

use super::vulkan::DeviceParts;
use super::{cpu_part, op_placement, Options, Progress, VulkanRunner};
use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::Plan;
use pumex_step::sample::SamplerOptions;
use pumex_step::{check_told, Counters, Output, Row, RowOutput, Runner, Squares, Ticket, Token, VectorLimits};
use pumex_vk::Device;
use std::collections::VecDeque;
use std::io::{Read, Write};

/// Positions that layers on the GPU must have room for, unless told.
const USUAL_CONTEXT: usize = 4096;

/// Runs a part of the ops on the CPU and the others on a GPU.
pub struct Offload<'a> {
    /// In order.
    parts: Vec<OpRange<'a>>,
    /// By sequence, the id that its last output row gave.
    latest: Vec<Option<u32>>,
    finished: VecDeque<(Ticket, Result<Output>)>,
    started: u64,
    /// Layers on the CPU, on both, on the GPU.
    layers: [usize; 3],
}

/// A run of ops.
struct OpRange<'a> {
    runner: Box<dyn Runner + 'a>,
    on_cpu: bool,
}

impl<'a> Offload<'a> {
    /// With the last `on_gpu` layers, and what comes after them, on the device, as far as the options' overrides say nothing else.
    ///
    /// # Errors
    /// A plan of which all would be on one side; what a part cannot load.
    pub fn new(
        gguf: &'a Gguf,
        plan: &Plan,
        device: Device,
        on_gpu: usize,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Offload<'a>> {
        let max_rows = options.max_rows.max(1) as usize;
        let segments = op_placement::segments(plan, on_gpu, &options.overrides, max_rows);
        if segments.len() < 2 {
            return Err(Error::Request(format!("--gpu-layers {on_gpu}: expected a model that can be parted there")));
        }
        Self::of(gguf, (plan, segments), device, options, progress)
    }

    fn of(
        gguf: &'a Gguf,
        (plan, segments): (&Plan, Vec<(bool, Plan)>),
        device: Device,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Offload<'a>> {
        let (layers, last) = (op_placement::count(plan.layers.len(), &segments), segments.len() - 1);
        let mut options = options.clone();
        if segments.iter().filter(|(on_cpu, _)| !on_cpu).count() > 1 {
            // None of several parts can know what room is left to it.
            options.n_ctx = usual_context(plan, &options);
        }
        // GPU first: it says how many positions and rows there is room for.
        let mut on_device = DeviceParts::new(device);
        let mut gpu = Vec::new();
        for (i, (_, segment)) in segments.iter().enumerate().filter(|(_, (on_cpu, _))| !on_cpu) {
            let mut way = Options { rows_with_room: 0, ..options.clone() };
            if i < last {
                way.debug.megakernel = Some(false); // it takes logits for those of a vocabulary
            }
            let runner = VulkanRunner::load_with_other_parts(gguf, segment.clone(), &mut on_device, &way, progress)?;
            options.n_ctx = Some(runner.n_ctx() as u32);
            options.max_rows = options.max_rows.min(runner.max_rows() as u32);
            gpu.push(runner);
        }
        let (mut gpu, mut threads) = (gpu.into_iter(), None);
        let mut parts = Vec::with_capacity(segments.len());
        for (on_cpu, segment) in segments {
            let made = if on_cpu { None } else { gpu.next() };
            let runner: Box<dyn Runner + 'a> = match made {
                Some(runner) => Box::new(runner),
                None => cpu_part(gguf, segment, &options, &mut threads)?,
            };
            parts.push(OpRange { runner, on_cpu });
        }
        let latest = vec![None; options.sequences()];
        Ok(Offload { parts, latest, finished: VecDeque::new(), started: 0, layers })
    }

    /// Rows of a step as the first part takes them: with the ids that were sampled, and all of them for the next.
    fn resolve_rows(&self, rows: &[Row]) -> Result<Vec<Row>> {
        let id = |row: &Row| match row.token {
            Token::Id(id) | Token::Source(id) => Ok(id),
            Token::Sampled => self.latest.get(row.seq as usize).copied().flatten().ok_or_else(|| {
                Error::Request(format!("sequence {}: expected an id that a step sampled, found none", row.seq))
            }),
        };
        rows.iter()
            .map(|row| Ok(Row { token: Token::Id(id(row)?), output: RowOutput::Logits, ..row.clone() }))
            .collect()
    }

    /// A step through all parts. Where one refuses it, those before forget it again.
    fn step(&mut self, rows: &[Row]) -> Result<Output> {
        let known = self.resolve_rows(rows)?;
        let through = self.run_parts(rows, &known);
        if through.is_err() {
            for row in rows.iter().rev() {
                self.parts.iter_mut().for_each(|part| _ = part.runner.forget(row.seq, row.pos));
            }
        }
        through
    }

    fn run_parts(&mut self, rows: &[Row], known: &[Row]) -> Result<Output> {
        let between = (0..).zip(known).map(|(i, row)| Row { token: Token::Id(i), ..row.clone() });
        let (last, between) = (self.parts.len() - 1, between.collect::<Vec<_>>());
        let mut output = Output::default();
        for (i, OpRange { runner, .. }) in self.parts.iter_mut().enumerate() {
            runner.fill_rows(&output.logits);
            let ticket = match i {
                0 => runner.start(known)?,
                i if i < last => runner.start(&between)?,
                _ => runner.start(&continuation_rows(rows, known))?,
            };
            // Rows between parts have no ids; what is NaN in them is NaN in the end.
            output = runner.finish_each(ticket)?;
        }
        Ok(output)
    }

    /// The part that samples.
    fn last(&self) -> &dyn Runner {
        &*self.parts[self.parts.len() - 1].runner
    }

    fn runners(&self) -> impl Iterator<Item = &(dyn Runner + 'a)> {
        self.parts.iter().map(|part| &*part.runner)
    }

    /// That all parts hold as much of a sequence, or none anything.
    fn check_restored(&mut self, seq: u32, restored: Result<()>) -> Result<()> {
        let held: Vec<usize> = self.runners().map(|runner| runner.sequence_len(seq)).collect();
        let restored = restored.and_then(|()| match held.iter().all(|n| *n == held[0]) {
            true => Ok(()),
            false => {
                Err(Error::Request(format!("sequence {seq}: expected as many positions in all parts, found {held:?}")))
            }
        });
        if restored.is_err() {
            self.forget(seq, 0);
        }
        restored
    }
}

/// Rows as the last part takes them: row i starts from what the table's row i holds. Penalties see the id that the row has.
fn continuation_rows(rows: &[Row], known: &[Row]) -> Vec<Row> {
    let moved = |(i, (row, known)): (u32, (&Row, &Row))| {
        let mut row = Row { token: Token::Id(i), ..row.clone() };
        if let (RowOutput::Sample(request), Token::Id(id)) = (&mut row.output, known.token) {
            if rows[i as usize].token == Token::Sampled {
                request.recent.push(id);
            }
        }
        row
    };
    (0..).zip(rows.iter().zip(known)).map(moved).collect()
}

impl Runner for Offload<'_> {
    fn n_vocab(&self) -> usize {
        self.last().n_vocab()
    }

    fn n_ctx(&self) -> usize {
        self.runners().map(Runner::n_ctx).min().unwrap_or(0)
    }

    fn max_rows(&self) -> usize {
        self.runners().map(Runner::max_rows).min().unwrap_or(0)
    }

    fn vectors(&self) -> Option<VectorLimits> {
        self.runners().map(Runner::vectors).reduce(|all, one| all.filter(|_| one.is_some())).flatten()
    }

    fn adapters(&self) -> usize {
        self.runners().map(Runner::adapters).max().unwrap_or(0)
    }

    fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.runner.set_adapter_scales(seq, scales))
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        check_told(rows)?;
        let output = self.step(rows);
        match &output {
            Ok(output) => {
                let listed = rows.iter().filter(|row| row.has_output());
                for (at, (row, id)) in listed.zip(&output.ids).enumerate() {
                    let is_nan = output.nan.iter().any(|nan| nan.output == at);
                    self.latest[row.seq as usize] = Some(*id).filter(|_| !is_nan);
                }
            }
            Err(Error::Request(_)) => return output.map(|_| Ticket(0)),
            Err(_) => rows.iter().for_each(|row| self.latest[row.seq as usize] = None),
        }
        self.started += 1;
        self.finished.push_back((Ticket(self.started), output));
        Ok(Ticket(self.started))
    }

    fn finish_each(&mut self, ticket: Ticket) -> Result<Output> {
        match self.finished.pop_front() {
            Some((oldest, output)) if oldest == ticket => output,
            other => {
                self.finished.extend(other);
                Err(Error::Request(format!("step {}: expected the oldest that was started", ticket.0)))
            }
        }
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        self.last().refuses(chain)
    }

    fn lists(&self) -> bool {
        self.last().lists()
    }

    fn last_logits(&mut self) -> Result<Vec<f32>> {
        let last = self.parts.len() - 1;
        self.parts[last].runner.last_logits()
    }

    fn forget(&mut self, seq: u32, from: u32) -> usize {
        let held = |part: &mut OpRange<'_>| part.runner.forget(seq, from);
        let least = self.parts.iter_mut().map(held).min().unwrap_or(0);
        if least < from as usize {
            // Parts keep layers of different kinds: what one of them lost, all forget.
            self.parts.iter_mut().for_each(|part| _ = part.runner.forget(seq, least as u32));
        }
        self.latest.get_mut(seq as usize).into_iter().for_each(|latest| *latest = None);
        least
    }

    fn can_cut(&self, seq: u32, from: u32) -> bool {
        self.runners().all(|runner| runner.can_cut(seq, from))
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.runner.fork(from, to, n_positions))?;
        self.latest[to as usize] = None;
        Ok(())
    }

    fn sequence_len(&self, seq: u32) -> usize {
        self.runners().map(|runner| runner.sequence_len(seq)).min().unwrap_or(0)
    }

    fn state_layout(&self) -> String {
        self.runners().map(Runner::state_layout).collect::<Vec<_>>().join(", then ")
    }

    fn save(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.runner.save(seq, to))
    }

    fn restore(&mut self, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.forget(seq, 0);
        let restored = self.parts.iter_mut().try_for_each(|part| part.runner.restore(seq, from));
        self.check_restored(seq, restored)
    }

    fn may_change(&self) -> Option<String> {
        self.runners().find_map(Runner::may_change)
    }

    fn save_beside(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.runner.save_beside(seq, to))
    }

    fn restore_beside(&mut self, beside: u32, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.forget(seq, 0);
        let restored = self.parts.iter_mut().try_for_each(|part| part.runner.restore_beside(beside, seq, from));
        self.check_restored(seq, restored)
    }

    fn free_blocks(&self) -> usize {
        self.runners().map(Runner::free_blocks).min().unwrap_or(0)
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.runners().map(|runner| runner.blocks_needed(rows)).max().unwrap_or(0)
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.runner.collect_importance())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        let all = self.parts.iter_mut().map(|part| part.runner.importance()).collect::<Result<Vec<_>>>();
        Ok(all?.concat())
    }

    fn time_steps(&mut self, on: bool) {
        self.parts.iter_mut().for_each(|part| part.runner.time_steps(on));
    }

    fn counters(&self) -> Counters {
        // All are of one device but for the time, which each part has of its own steps.
        let gpu = || self.parts.iter().filter(|part| !part.on_cpu).map(|part| part.runner.counters());
        let sum = |of: fn(&Counters) -> f64| gpu().map(|c| of(&c)).sum();
        Counters { gpu_us: sum(|c| c.gpu_us), build_us: sum(|c| c.build_us), ..gpu().next().unwrap_or_default() }
    }

    fn device(&self) -> String {
        let name = |cpu: bool| self.parts.iter().find(|part| part.on_cpu == cpu).map(|part| part.runner.device());
        let [cpu, gpu] = [true, false].map(|on| name(on).unwrap_or_default());
        let [own, both, others] = self.layers;
        let parted = if both > 0 { format!(" and parts of {both}") } else { String::new() };
        format!("{cpu} for {own} layers{parted}, {gpu} for {others}")
    }
}

/// Positions for layers that are not to be left with a tiny context that nobody asked for.
fn usual_context(plan: &Plan, options: &Options) -> Option<u32> {
    options.n_ctx.filter(|n| *n > 0).or(Some(plan.n_ctx_train.min(USUAL_CONTEXT) as u32))
}

/// The last `on_gpu` layers on the device, as far as the options' overrides say nothing else; a runner of one device where that
/// leaves nothing to the other.
///
/// # Errors
/// As [`Offload::new`].
pub fn place_layers<'a>(
    gguf: &'a Gguf,
    plan: &Plan,
    device: Device,
    on_gpu: usize,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Box<dyn Runner + 'a>> {
    let segments = op_placement::segments(plan, on_gpu, &options.overrides, options.max_rows.max(1) as usize);
    match &segments[..] {
        [(true, _)] => {
            let all = plan.layers.len();
            if (1..all).contains(&on_gpu) {
                let why = op_placement::why_whole(plan);
                tracing::warn!(
                    "-ngl {on_gpu}: {why}, so that all {all} layers run on the CPU; -ngl {all} has a GPU run them"
                );
            }
            cpu_part(gguf, plan.clone(), options, &mut None)
        }
        [_] => Ok(Box::new(VulkanRunner::new(gguf, plan.clone(), device, options, progress)?)),
        _ => Ok(Box::new(Offload::of(gguf, (plan, segments), device, options, progress)?)),
    }
}

/// A runner with as many of the last layers on the device as there is room for; a runner of the device alone where that is all of them.
///
/// # Errors
/// What is no lack of memory; a device without room for a single layer.
pub fn fitting<'a>(
    gguf: &'a Gguf,
    plan: &Plan,
    device: Device,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Box<dyn Runner + 'a>> {
    let all = plan.layers.len();
    let full = match place_layers(gguf, plan, device.clone(), all, options, progress) {
        Err(Error::OutOfMemory(full)) => full,
        other => return other,
    };
    let options = &Options { n_ctx: usual_context(plan, options), ..options.clone() };
    if op_placement::is_whole(plan, options.max_rows.max(1) as usize) {
        tracing::warn!("{full}; {}, so that all {all} layers run on the CPU", op_placement::why_whole(plan));
        return cpu_part(gguf, plan.clone(), options, &mut None);
    }
    // A plan that does not fit is refused before anything is loaded.
    for on_gpu in (1..all).rev() {
        match place_layers(gguf, plan, device.clone(), on_gpu, options, progress) {
            Err(Error::OutOfMemory(_)) => {}
            Ok(runner) => {
                tracing::warn!("{full}; {on_gpu} of {all} layers run there, the others on the CPU (-ngl)");
                return Ok(runner);
            }
            Err(other) => return Err(other),
        }
    }
    Err(Error::OutOfMemory(full))
}
