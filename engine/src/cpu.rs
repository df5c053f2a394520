//! The plan on the CPU, twice. [`Reference`] is plain f32, one loop per op: the truth that all else is compared with, and what
//! `--device reference` runs. [`Fast`] runs the same plan with the kernels of `cpu/`: what `--device cpu` runs.

mod bookkeeping;
mod conv2d;
mod fast;
mod general;
mod interpret;
mod ops;
mod products;
mod state_io;

pub use conv2d::conv2d;
pub use fast::{Clock, Fast, FastSettings, RunnerSizes, Threads};
pub use ops::route;
pub use products::EncoderProducts;
pub use pumex_cpu::threads::{usual as usual_threads, Numa};
pub use pumex_cpu::Rates;

use bookkeeping::Books;
use general::States;

use crate::session::{Session, StateHeader, Stores, KV_BLOCK};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{LayerState, Plan, Val, Weight};
use pumex_step::sample::SamplerOptions;
use pumex_step::{check_told, Counters, Output, Row, Runner, Squares, Ticket, VectorLimits};
use std::io::{Read, Write};
use std::ops::Range;

/// What one sequence keeps of each layer: K `[pos, k_width]` and V `[pos, v_width]`, empty where a layer keeps none.
type SeqCache = Vec<(Vec<f32>, Vec<f32>)>;

/// Runs a plan in plain f32.
pub struct Reference<'a> {
    gguf: &'a Gguf,
    plan: Plan,
    session: Session,
    caches: Vec<SeqCache>,
    /// What keys and values are rounded to when they are kept.
    elements: [Elements; 2],
    states: States,
    spare: general::Spare,
    values: Vec<Vec<f32>>,
    /// What steps of a later part of a model start from.
    from_host: Vec<f32>,
    books: Books,
}

impl<'a> Reference<'a> {
    /// An interpreter for up to `n_seqs` sequences of `n_ctx` positions, `max_rows` rows a step.
    pub fn new(gguf: &'a Gguf, plan: Plan, n_ctx: usize, n_seqs: usize, max_rows: usize) -> Self {
        let layer = || (Vec::new(), Vec::new());
        let plan = plan.for_context(n_ctx);
        let limits = plan.limits(n_ctx, max_rows, n_seqs);
        // Memory that grows: there are always as many blocks as sequences may fill.
        let blocks = n_ctx.div_ceil(KV_BLOCK) * n_seqs;
        Reference {
            caches: (0..n_seqs).map(|_| plan.layers.iter().map(|_| layer()).collect()).collect(),
            elements: [Elements::Floats(Float::F32); 2],
            states: States::new(&plan, n_seqs),
            spare: general::Spare::default(),
            session: Session::new(limits, &Stores::of(&plan.layers).store_blocks(blocks, n_seqs, n_ctx, max_rows))
                .encoding(plan.encoder.is_some())
                .with_adapters(plan.adapters),
            values: vec![Vec::new(); plan.values.len()],
            from_host: Vec::new(),
            books: Books::new(n_seqs),
            gguf,
            plan,
        }
    }

    /// This runner, whose keys and values are rounded to such elements when they are kept; they are f32 unless told.
    pub fn keeping(mut self, k: Elements, v: Elements) -> Self {
        self.elements = [k, v];
        self
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the ops of `range` for `rows`; values of earlier ops are those of the last call.
    pub fn run_ops(&mut self, rows: &[Row], range: Range<usize>) {
        let wanted: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].has_output()).collect();
        for i in range {
            self.op(i, rows, &wanted);
        }
    }

    /// A value after [`Reference::run_ops`], `[rows, width]`.
    pub fn value(&self, v: Val) -> &[f32] {
        &self.values[v.0]
    }

    fn matrix(&self, w: Weight) -> ops::StoredMatrix<'_> {
        let info = &self.plan.weights[w.0];
        let data = self.gguf.data(&self.gguf.tensors()[info.tensor]);
        ops::StoredMatrix { data, rows: info.rows, cols: info.cols, format: info.format }
    }

    fn vector(&self, w: Weight) -> Vec<f32> {
        self.matrix(w).row(0)
    }

    /// A sequence's first `n` positions, for another one.
    fn copy_caches(&mut self, from: u32, to: u32, n: usize) {
        let copy = |(layer, (k, v)): (&LayerState, &(Vec<f32>, Vec<f32>))| {
            let (k_width, v_width) = layer.kv().map_or((0, 0), |spec| (spec.k_width(), spec.v_width()));
            // Some layers keep positions of the source alone.
            let first = |all: &[f32], len: usize| all[..len.min(all.len())].to_vec();
            (first(k, n * k_width), first(v, n * v_width))
        };
        self.caches[to as usize] = self.plan.layers.iter().zip(&self.caches[from as usize]).map(copy).collect();
    }
}

impl Runner for Reference<'_> {
    fn n_vocab(&self) -> usize {
        self.plan.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.session.limits().n_ctx
    }

    fn max_rows(&self) -> usize {
        self.session.limits().max_rows
    }

    fn vectors(&self) -> Option<VectorLimits> {
        self.session.limits().vectors
    }

    fn answers_from(&self) -> Option<u32> {
        self.plan.encoder.map(|encoder| encoder.start)
    }

    fn adapters(&self) -> usize {
        self.session.adapters()
    }

    fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        self.session.set_adapter_scales(seq, scales)
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        check_told(rows)?;
        self.session.admit(rows)?;
        self.session.note_step(rows);
        self.books.start(&self.session, rows);
        self.run_ops(rows, self.plan.ops_of(rows.iter().any(|row| row.token.is_source())));
        self.gguf.check()?;
        Ok(self.books.end(&self.values[self.plan.logits.0], self.plan.n_vocab, rows))
    }

    fn finish_each(&mut self, ticket: Ticket) -> Result<Output> {
        self.books.finish(&mut self.session, ticket)
    }

    fn fill_rows(&mut self, rows: &[f32]) {
        rows.clone_into(&mut self.from_host);
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        chain.needs_sampler().map(str::to_string)
    }

    fn forget(&mut self, seq: u32, from: u32) -> usize {
        let held = self.session.forget(seq, from);
        let layers = &self.plan.layers;
        if let Some(cache) = self.caches.get_mut(seq as usize) {
            for (layer, (k, v)) in layers.iter().zip(cache) {
                let Some(spec) = layer.kv() else { continue };
                k.truncate(held * spec.k_width());
                v.truncate(held * spec.v_width());
            }
        }
        held
    }

    fn can_cut(&self, seq: u32, from: u32) -> bool {
        self.session.blocks().can_cut(seq as usize, from as usize)
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.session.fork(from, to, n_positions as usize)?;
        self.states.fork(from, to);
        self.copy_caches(from, to, n_positions as usize);
        Ok(())
    }

    fn sequence_len(&self, seq: u32) -> usize {
        self.session.blocks().sequence_len(seq)
    }

    fn state_layout(&self) -> String {
        state_io::reference_layout(&self.plan, self.elements)
    }

    fn save(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        state_io::write_error(self.session.blocks().state_header(seq).write(to))?;
        for (k, v) in self.caches.get(seq as usize).into_iter().flatten() {
            state_io::save_floats(k, to)?;
            state_io::save_floats(v, to)?;
        }
        state_io::save_states(&mut self.states, self.plan.layers.len(), seq, to)
    }

    fn restore(&mut self, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.forget(seq, 0);
        let known = state_io::read(StateHeader::read(self.session.blocks().stores(), from))?;
        self.session.adopt(seq, &known)?;
        let widths = |layer: &LayerState| layer.kv().map_or((0, 0), |kv| (kv.k_width(), kv.v_width()));
        let mut layers = self.plan.layers.iter().zip(&mut self.caches[seq as usize]);
        let read = layers.try_for_each(|(layer, (k, v))| {
            let (k_width, v_width) = widths(layer);
            state_io::restore_floats(k, known.held * k_width, from)?;
            state_io::restore_floats(v, known.held * v_width, from)
        });
        let layers = self.plan.layers.len();
        let read = read.and_then(|()| state_io::restore_states(&mut self.states, layers, seq, from));
        if read.is_err() {
            self.forget(seq, 0);
        }
        read
    }

    fn save_beside(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        state_io::write_error(self.session.blocks().state_header(seq).write(to))?;
        state_io::save_states(&mut self.states, self.plan.layers.len(), seq, to)
    }

    fn restore_beside(&mut self, beside: u32, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.forget(seq, 0);
        let known = state_io::read(StateHeader::read(self.session.blocks().stores(), from))?;
        self.session.adopt_beside(beside, seq, &known)?;
        self.copy_caches(beside, seq, known.held);
        let read = state_io::restore_states(&mut self.states, self.plan.layers.len(), seq, from);
        if read.is_err() {
            self.forget(seq, 0);
        }
        read
    }

    fn free_blocks(&self) -> usize {
        self.session.blocks().free(0)
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.session.blocks().blocks_needed(0, rows)
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.books.collect_importance(&self.plan);
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        Ok(self.books.importance(&self.plan))
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn device(&self) -> String {
        format!("CPU reference, {} threads", rayon::current_num_threads())
    }
}
