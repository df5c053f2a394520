//! The plan's fast interpreter: the kernels of `pumex-cpu`, weights packed when they are loaded, activations of 8 bits in
//! products, keys and values in blocks that the session's tables name.

mod clock;
mod ops;
mod scan;
mod sparse_attention;
mod state;
mod weights;

use super::bookkeeping::Books;
use super::general::{Spare, States};
use crate::cpu::state_io;
use crate::session::{Rule, Session, StateHeader, KV_BLOCK};
pub use clock::Clock;
use pumex_cpu::attention::{AttentionWorkspace, Elements};
use pumex_cpu::threads::{self, Numa};
use pumex_cpu::{Acts, Cpu, ExpertChoices, Isa, Rates, ThreadPool};
use pumex_gguf::error::reserve;
use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::{Plan, Rows, Weight};
use pumex_step::sample::SamplerOptions;
use pumex_step::{check_told, Counters, Output, Row, Runner, Squares, Ticket, VectorLimits};
use state::CacheState;
use std::io::{Read, Write};
use std::sync::Arc;
use weights::Weights;

/// How the fast interpreter runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastSettings {
    /// Threads of steps of one row; none takes what the machine has of physical cores and the process may use.
    pub threads: Option<usize>,
    /// Threads of steps of several rows; none takes as many.
    pub batch_threads: Option<usize>,
    /// Multiplies with the blocks of the file in place, which takes less memory and more time.
    pub in_place: bool,
    /// Instructions; none takes the best there are.
    pub isa: Option<Isa>,
    /// Processors that threads may run on, one after the other each; empty leaves that to the system.
    pub processors: Vec<usize>,
    /// Where the machine has several nodes: which processors, if none are given.
    pub numa: Option<Numa>,
    /// Before other threads of the system, -1 (behind them) to 3.
    pub priority: i32,
}

/// What sequences a runner has room for, and how it keeps them.
#[derive(Clone, Copy, Debug)]
pub struct RunnerSizes {
    /// Positions of a sequence.
    pub n_ctx: usize,
    /// Sequences.
    pub n_seqs: usize,
    /// Most rows of a step.
    pub max_rows: usize,
    /// Positions that all sequences share; none has `n_ctx` for each.
    pub cache_positions: Option<usize>,
    /// Elements of keys.
    pub k: Elements,
    /// Elements of values.
    pub v: Elements,
}

/// Runs a plan that no pass has merged ops of.
pub struct Fast<'a> {
    gguf: &'a Gguf,
    plan: Arc<Plan>,
    session: Session,
    books: Books,
    cpu: Arc<Cpu>,
    /// Threads of one row, of several.
    threads: [usize; 2],
    weights: Weights<'a>,
    state: CacheState,
    states: States,
    values: Vec<Vec<f32>>,
    /// What steps of a later part of a model start from.
    from_host: Vec<f32>,
    /// The codes of the value that was last an input of a product, and which that was.
    acts: Acts,
    acts_of: Option<usize>,
    choices: ExpertChoices,
    /// Columns of a value, group by group.
    groups: Vec<f32>,
    chosen: sparse_attention::SparseAttentionScratch,
    work: AttentionWorkspace,
    /// Rates and decays of a scan, `[n, heads]` each.
    steps: [Vec<f32>; 2],
    /// Memory of general ops.
    spare: Spare,
    /// Groups of a scan's heads.
    scan_groups: Vec<usize>,
    /// Indices of output rows.
    wanted: Vec<usize>,
    clock: Clock,
}

/// The threads that runners share, and how they run.
#[derive(Clone)]
pub struct Threads {
    cpu: Arc<Cpu>,
    /// Steps of one row, and of several.
    counts: [usize; 2],
    repack: bool,
}

impl Threads {
    /// Starts them.
    pub fn new(settings: &FastSettings) -> Threads {
        let usual = threads::usual();
        let one = settings.threads.unwrap_or(usual).max(1);
        let more = settings.batch_threads.unwrap_or(one).max(1);
        let isa = settings.isa.filter(|isa| isa.is_here()).unwrap_or_else(Isa::best);
        let mut processors = settings.processors.clone();
        if let (Some(numa), true) = (settings.numa, processors.is_empty()) {
            processors = threads::places(numa);
        }
        let priority = settings.priority;
        let start = move |number: usize| {
            if let Some(processor) = processors.get(number % processors.len().max(1)) {
                threads::pin(&[*processor]);
            }
            threads::prioritize(priority)
        };
        if !start(0) {
            tracing::warn!("--prio {priority}: the system does not allow it, threads run as others do");
        }
        let start = move |number: usize| {
            start(number);
        };
        let cpu = Arc::new(Cpu { pool: ThreadPool::new(one.max(more), start), isa });
        Threads { cpu, counts: [one, more], repack: !settings.in_place }
    }

    /// The kernels and their threads.
    pub(crate) fn cpu(&self) -> Arc<Cpu> {
        self.cpu.clone()
    }

    /// What memory and instructions give to them: measured now, within a second or two.
    pub fn rates(&self) -> Rates {
        self.cpu.rates()
    }
}

impl<'a> Fast<'a> {
    /// A runner whose weights are checked and packed when this returns.
    ///
    /// # Errors
    /// Weights that are not finite, a file that has become shorter.
    pub fn new(gguf: &'a Gguf, plan: Plan, sizes: RunnerSizes, settings: &FastSettings) -> Result<Self> {
        Self::with(gguf, plan, sizes, &Threads::new(settings))
    }

    /// A runner that shares `threads` with other runners, whose steps must follow each other. Weights are packed when this returns.
    ///
    /// # Errors
    /// As [`Fast::new`].
    pub fn with(gguf: &'a Gguf, plan: Plan, sizes: RunnerSizes, threads: &Threads) -> Result<Self> {
        let cpu = threads.cpu.clone();
        let weights = Weights::new(gguf, &plan, &cpu, threads.repack)?;
        let RunnerSizes { n_ctx, n_seqs, max_rows, .. } = sizes;
        let plan = plan.for_context(n_ctx);
        let limits = plan.limits(n_ctx, max_rows, n_seqs);
        let blocks = match sizes.cache_positions {
            Some(positions) => positions.div_ceil(KV_BLOCK),
            None => n_ctx.div_ceil(KV_BLOCK) * n_seqs,
        };
        // Windows keep all positions here; a recurrent state is one of the whole sequence.
        let recurrent = plan.layers.iter().any(|layer| layer.recurrent_elements() > 0);
        let recurrent = recurrent.then_some((Rule::Recurrent, n_seqs));
        let stores: Vec<(Rule, usize)> = std::iter::once((Rule::Paged, blocks)).chain(recurrent).collect();
        Ok(Fast {
            gguf,
            session: Session::new(limits, &stores).encoding(plan.encoder.is_some()).with_adapters(plan.adapters),
            books: Books::new(n_seqs),
            cpu,
            threads: threads.counts,
            weights,
            state: CacheState::new(&plan, (sizes.k, sizes.v)),
            states: States::new(&plan, n_seqs),
            values: vec![Vec::new(); plan.values.len()],
            from_host: Vec::new(),
            acts: Acts::default(),
            acts_of: None,
            choices: ExpertChoices::default(),
            groups: Vec::new(),
            chosen: sparse_attention::SparseAttentionScratch::default(),
            work: AttentionWorkspace::default(),
            steps: Default::default(),
            spare: Spare::default(),
            scan_groups: Vec::new(),
            wanted: Vec::new(),
            clock: Clock::default(),
            plan: Arc::new(plan),
        })
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is timed.
    pub fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Microseconds of the last step, and when each of its ops had ended, if they were timed.
    pub fn last_step(&self) -> (f64, &[f64]) {
        (self.clock.us, &self.clock.ends)
    }

    /// Bytes of a weight as products read it; of one that none reads, as the file has it.
    pub fn weight_bytes(&self, w: Weight) -> u64 {
        self.weights.bytes(w).unwrap_or_else(|| self.plan.weights[w.0].len_bytes())
    }

    /// Takes memory for a step of these rows, which are admitted: where it runs out, the step is refused and the process lives.
    fn take_memory(&mut self, rows: &[Row]) -> Result<()> {
        let blocks = self.session.blocks();
        let written = rows.iter().map(|row| state::place_of(blocks.table(0, row.seq as usize), row.pos as usize).block);
        let copied = blocks.copies().iter().filter(|copy| copy.store == 0).map(|copy| copy.to);
        let most = written.chain(copied).max().unwrap_or(0);
        if !self.state.caches.iter_mut().flatten().all(|cache| cache.hold(most)) {
            let positions = (most as usize + 1) * KV_BLOCK;
            let what = format!("keys and values of {positions} positions are not to be had (-c, -np, --cache-type-k)");
            return Err(Error::OutOfMemory(what));
        }
        let outputs = rows.iter().filter(|row| row.has_output()).count();
        for (value, info) in self.values.iter_mut().zip(&self.plan.values) {
            let count = if info.rows == Rows::Output { outputs } else { rows.len() };
            reserve(value, count.saturating_mul(info.width), "values of a step (-ub)")?;
        }
        Ok(())
    }

    /// What memory and instructions give to the threads that steps of so many rows have: measured now, within a second or two.
    pub fn rates(&self, rows: usize) -> Rates {
        self.cpu.pool.limit(self.threads[usize::from(rows > 1)]);
        self.cpu.rates()
    }
}

impl Runner for Fast<'_> {
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
        if let Err(error) = self.take_memory(rows) {
            self.session.undo();
            return Err(error);
        }
        self.session.note_step(rows);
        self.books.start(&self.session, rows);
        self.cpu.pool.limit(self.threads[usize::from(rows.len() > 1)]);
        self.run(rows);
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
        self.session.forget(seq, from)
    }

    fn can_cut(&self, seq: u32, from: u32) -> bool {
        self.session.blocks().can_cut(seq as usize, from as usize)
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.session.fork(from, to, n_positions as usize)?;
        self.states.fork(from, to);
        Ok(())
    }

    fn sequence_len(&self, seq: u32) -> usize {
        self.session.blocks().sequence_len(seq)
    }

    fn state_layout(&self) -> String {
        state_io::fast_layout(&self.plan, &self.state.caches)
    }

    fn save(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        let blocks = self.session.blocks();
        state_io::write_error(blocks.state_header(seq).write(to))?;
        for cache in self.state.caches.iter_mut().flatten() {
            blocks
                .saved_blocks(0, seq)
                .iter()
                .try_for_each(|block| state_io::write_error(to.write_all(cache.block(*block))))?;
        }
        state_io::save_states(&mut self.states, self.plan.layers.len(), seq, to)
    }

    fn restore(&mut self, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.session.forget(seq, 0);
        let known = state_io::read(StateHeader::read(self.session.blocks().stores(), from))?;
        self.session.adopt(seq, &known)?;
        let blocks = self.session.blocks();
        let mut caches = self.state.caches.iter_mut().flatten();
        let read = caches.try_for_each(|cache| {
            blocks
                .saved_blocks(0, seq)
                .iter()
                .try_for_each(|block| state_io::read(from.read_exact(cache.block(*block))))
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
        self.session.forget(seq, 0);
        let known = state_io::read(StateHeader::read(self.session.blocks().stores(), from))?;
        self.session.adopt_beside(beside, seq, &known)?;
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
        format!("CPU with {}, {} threads", self.cpu.isa.name(), self.threads[0])
    }
}
