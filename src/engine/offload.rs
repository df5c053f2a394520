//! A model of which the first layers run on the CPU and the others on a GPU: for GPUs that have no room for all of it.
//!
//! The parts are runners of plans of their own ([`Plan::split`]), each with its layers' state. A step goes through the one, then
//! the other; the rows in between are copied once.

use super::{cpu_runner, Options, Progress, VulkanRunner};
use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::sample::SamplerOptions;
use crate::step::{Counters, Output, Row, RowOutput, Runner, Squares, Ticket, Token};
use crate::vk::Device;
use crate::{Error, Result};
use std::collections::VecDeque;

/// Positions that layers on the GPU must have room for, unless told.
const USUAL_CONTEXT: usize = 4096;

/// Runs the first layers on the CPU and the others on a GPU.
pub struct Offload<'a> {
    first: Box<dyn Runner + 'a>,
    second: VulkanRunner,
    /// By sequence, the id that its last output row gave.
    latest: Vec<Option<u32>>,
    finished: VecDeque<(Ticket, Result<Output>)>,
    started: u64,
    layers: [usize; 2],
}

impl<'a> Offload<'a> {
    /// With the last `on_gpu` layers, and what comes after them, on the device.
    ///
    /// # Errors
    /// A plan that cannot be parted there; what either part cannot load.
    pub fn new(
        gguf: &'a Gguf,
        plan: &Plan,
        device: Device,
        on_gpu: usize,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Offload<'a>> {
        let (all, max_rows) = (plan.layers.len(), options.max_rows.max(1) as usize);
        let layers = [all.saturating_sub(on_gpu), on_gpu.min(all)];
        let Some((first, second)) = plan.split(layers[0], max_rows) else {
            let what = format!("--gpu-layers {on_gpu}: the model cannot be parted before layer {}", layers[0]);
            return Err(Error::Request(what));
        };
        let second = VulkanRunner::new(gguf, second, device, options, progress)?;
        let (n_ctx, max_rows) = (Some(second.n_ctx() as u32), second.max_rows() as u32);
        let first = cpu_runner(gguf, first, &Options { n_ctx, max_rows, ..options.clone() })?;
        let latest = vec![None; options.n_seqs.max(1) as usize];
        Ok(Offload { first, second, latest, finished: VecDeque::new(), started: 0, layers })
    }

    /// Rows of a step as the first part takes them: with the ids that were sampled, and all of them for the second.
    fn known(&self, rows: &[Row]) -> Result<Vec<Row>> {
        let id = |row: &Row| match row.token {
            Token::Id(id) => Ok(id),
            Token::Sampled => self.latest.get(row.seq as usize).copied().flatten().ok_or_else(|| {
                Error::Request(format!("sequence {}: expected an id that a step sampled, found none", row.seq))
            }),
        };
        rows.iter()
            .map(|row| Ok(Row { token: Token::Id(id(row)?), output: RowOutput::Logits, ..row.clone() }))
            .collect()
    }

    /// A step through both parts. Where the second refuses it, the first forgets it again.
    fn step(&mut self, rows: &[Row]) -> Result<Output> {
        let known = self.known(rows)?;
        let ticket = self.first.start(&known)?;
        let through = self.first.finish(ticket).and_then(|between| {
            self.second.fill_rows(&between.logits);
            let ticket = self.second.start(&over(rows, &known))?;
            self.second.finish(ticket)
        });
        if through.is_err() {
            for row in rows.iter().rev() {
                self.first.forget(row.seq, row.pos);
                self.second.forget(row.seq, row.pos);
            }
        }
        through
    }
}

/// Rows as the second part takes them: row i starts from what the table's row i holds. Penalties see the id that the row has.
fn over(rows: &[Row], known: &[Row]) -> Vec<Row> {
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
        self.second.n_vocab()
    }

    fn n_ctx(&self) -> usize {
        self.second.n_ctx()
    }

    fn max_rows(&self) -> usize {
        self.second.max_rows()
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        let output = self.step(rows);
        match &output {
            Ok(output) => {
                let listed = rows.iter().filter(|row| row.has_output());
                listed.zip(&output.ids).for_each(|(row, id)| self.latest[row.seq as usize] = Some(*id));
            }
            Err(Error::Request(_)) => return output.map(|_| Ticket(0)),
            Err(_) => rows.iter().for_each(|row| self.latest[row.seq as usize] = None),
        }
        self.started += 1;
        self.finished.push_back((Ticket(self.started), output));
        Ok(Ticket(self.started))
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        match self.finished.pop_front() {
            Some((oldest, output)) if oldest == ticket => output,
            other => {
                self.finished.extend(other);
                Err(Error::Request(format!("step {}: expected the oldest that was started", ticket.0)))
            }
        }
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        self.second.refuses(chain)
    }

    fn forget(&mut self, seq: u32, from: u32) {
        self.first.forget(seq, from);
        self.second.forget(seq, from);
        self.latest.get_mut(seq as usize).into_iter().for_each(|latest| *latest = None);
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.second.fork(from, to, n_positions)?;
        self.first.fork(from, to, n_positions)?;
        self.latest[to as usize] = None;
        Ok(())
    }

    fn free_blocks(&self) -> usize {
        self.first.free_blocks().min(self.second.free_blocks())
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.first.blocks_needed(rows).max(self.second.blocks_needed(rows))
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.first.collect_importance()?;
        self.second.collect_importance()
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        Ok([self.first.importance()?, self.second.importance()?].concat())
    }

    fn time_steps(&mut self, on: bool) {
        self.second.time_steps(on);
    }

    fn counters(&self) -> Counters {
        self.second.counters()
    }

    fn device(&self) -> String {
        let [cpu, gpu] = self.layers;
        format!("{} for {cpu} layers, {} for {gpu}", self.first.device(), self.second.device())
    }
}

/// As many of the last layers on the device as there is room for; a runner of the device alone where that is all of them.
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
    let full = match VulkanRunner::new(gguf, plan.clone(), device.clone(), options, progress) {
        Err(Error::OutOfMemory(full)) => full,
        other => return Ok(Box::new(other?)),
    };
    // A context that nobody asked for is no reason to be left with a tiny one.
    let n_ctx = options.n_ctx.filter(|n| *n > 0).or(Some(plan.n_ctx_train.min(USUAL_CONTEXT) as u32));
    let options = &Options { n_ctx, ..options.clone() };
    // A plan that does not fit is refused before anything is loaded.
    for on_gpu in (1..plan.layers.len()).rev() {
        match Offload::new(gguf, plan, device.clone(), on_gpu, options, progress) {
            Err(Error::OutOfMemory(_)) => {}
            Ok(runner) => {
                let all = plan.layers.len();
                tracing::warn!("{full}; {on_gpu} of {all} layers run there, the others on the CPU (-ngl)");
                return Ok(Box::new(runner));
            }
            Err(other) => return Err(other),
        }
    }
    Err(Error::OutOfMemory(full))
}
