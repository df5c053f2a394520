//! The Vulkan interpreter of a plan: one recording per step shape, two steps in flight.

use super::buffers::{DeviceState, SessionSize, RECORDINGS, SLOTS};
use super::loaded_model::{Freeing, Model};
use super::memory::{self, FittedPlan, MemoryPlan, StepSize};
use super::params::{outputs_of, OutputRow};
use super::program::{Bases, Program};
use super::{request, shapes, subnormal, weights, CacheType, Options, Progress};
use crate::exec::{record, RecordedStep, StampedOp};
use crate::kernel::Kernels;
use crate::session::{Recent, Session, Steps, Stores};
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower::megakernel::EPOCHS;
use pumex_lower::{policy, Shape};
use pumex_plan::Plan;
use pumex_step::sample::{Allowed, SamplerOptions};
use pumex_step::{CheckedStep, Counters, Output, Row, Runner, Squares, Ticket, Token, VectorLimits};
use pumex_vk::{Buffer, Class, Device, Recording};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Arc;

/// A step that was submitted.
pub(super) struct Flying {
    /// Reached when it is done.
    pub value: u64,
    /// What its recording depends on.
    pub shape: Shape,
    /// Kept until it is done.
    pub step: Arc<RecordedStep>,
    /// Copies of blocks before it.
    pub copies: Option<Recording>,
    /// Output rows as it lists them.
    pub outputs: Vec<OutputRow>,
    /// Output rows, the first ones, that have logits for the host.
    pub logits: usize,
    /// Sequences with a row whose token an earlier step samples.
    pub after_sampled: Vec<u32>,
    /// Sequences and rows of an earlier step that such an id should have come from, but had logits that are NaN.
    pub spoilt: Vec<(u32, usize)>,
    /// Masks and lists of the output rows.
    pub choice: request::SamplingInputs,
    /// The rows, where it was made to compute with other tokens ([`super::Debug::fault_at`]).
    pub disguised: Option<Vec<Row>>,
}

/// GPU time of a step.
#[derive(Clone, Debug, Default)]
pub struct StepTime {
    /// All of it, microseconds.
    pub gpu_us: f64,
    /// Ops that were stamped, in order, and when each had ended, microseconds after the start.
    pub ends_us: Vec<(StampedOp, f64)>,
    /// The plan that these are ops of: with ops merged.
    pub plan: Option<Arc<Plan>>,
}

/// What is timed, and what was found.
#[derive(Default)]
struct Timing {
    /// Steps are timed.
    steps: bool,
    /// Ops are, too.
    ops: bool,
    /// Time of all finished steps on the GPU, microseconds.
    gpu_us: f64,
    last: StepTime,
}

/// Runs a plan on a Vulkan device.
pub struct VulkanRunner {
    pub(super) model: Arc<Model>,
    pub(super) state: DeviceState,
    pub(super) session: Session,
    pub(super) steps: Steps<Flying>,
    pub(super) recordings: Recent<Shape, RecordedStep>,
    timing: Timing,
    /// By sequence, the last id that a finished step gave.
    pub(super) latest: Vec<u32>,
    /// Where in the arena the logits of the step lie that finished last, and its output rows; none once another has started.
    pub(super) left: Option<(u64, Vec<OutputRow>)>,
}

/// What runners of several parts of a model share on a device.
pub(super) struct DeviceParts {
    device: Device,
    made: Option<(Arc<Kernels>, Buffer)>,
    /// Bytes that those made so far take.
    taken: u64,
}

impl DeviceParts {
    /// None yet.
    pub fn new(device: Device) -> DeviceParts {
        DeviceParts { device, made: None, taken: 0 }
    }

    /// Pipelines, and tables of all formats.
    fn load_kernels(&mut self, spoilt: Option<&'static str>) -> Result<(Arc<Kernels>, Buffer)> {
        if let Some(made) = &self.made {
            return Ok(made.clone());
        }
        let made = (Arc::new(Kernels::new(&self.device).spoiling(spoilt)), weights::codebooks(&self.device)?);
        Ok(self.made.insert(made).clone())
    }
}

impl VulkanRunner {
    /// Uploads the weights of `plan`; meanwhile takes all memory a run needs and builds the pipelines of usual steps.
    ///
    /// # Errors
    /// A weight that is not finite; memory that does not suffice, with the numbers; a lost device.
    pub fn new(gguf: &Gguf, plan: Plan, device: Device, options: &Options, progress: Progress<'_>) -> Result<Self> {
        Self::load_with_other_parts(gguf, plan, &mut DeviceParts::new(device), options, progress)
    }

    /// Loads a plan as [`VulkanRunner::new`] does, beside runners of other parts of the model.
    ///
    /// # Errors
    /// As [`VulkanRunner::new`].
    pub(super) fn load_with_other_parts(
        gguf: &Gguf,
        plan: Plan,
        parts: &mut DeviceParts,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let device = parts.device.clone();
        let mut caps = device.caps().clone();
        caps.memory_budget_bytes = caps.memory_budget_bytes.saturating_sub(parts.taken + options.reserved_bytes);
        let FittedPlan { plan, memory, step: StepSize { arena, max_rows } } =
            memory::plan_with_context(plan, &caps, device.stages_weights(), options)?;
        if plan.weights.iter().any(|w| w.format.is_expanded()) {
            tracing::info!("load: weights of codebooks are written out, for speed");
        }
        let MemoryPlan { n_ctx, blocks, .. } = memory;
        let stores = Stores::of(&plan.layers).count();
        let size = SessionSize { max_rows, n_seqs: options.sequences(), n_ctx, blocks, stores };
        let (plan, (kernels, codebooks)) = (Arc::new(plan), parts.load_kernels(options.debug.spoilt)?);
        parts.taken += memory.at_start() + memory.recordings;
        let (made, weights) = std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let bases = Bases { device: device.clone(), kernels: kernels.clone(), codebooks: codebooks.clone() };
                let program = Program::new(bases, plan.clone(), arena, options, n_ctx)?;
                let state = DeviceState::new(&program, size)?;
                if options.debug.build_ahead.unwrap_or_else(|| policy::builds_ahead(device.caps())) {
                    if !subnormal::keeps_subnormal_halves(&device, &kernels)? {
                        let name = &device.caps().name;
                        tracing::warn!("device {name}: takes small scales for zero; results may be worse");
                    }
                    match options.batch {
                        None => shapes::build_ahead(&program, &state, max_rows)?,
                        Some(batch) => shapes::build_all(&program, &state, (max_rows, batch as usize))?,
                    }
                }
                Ok::<_, Error>((program, state))
            });
            let weights = weights::upload(&device, (&kernels, &codebooks), gguf, &plan, progress);
            (made.join(), weights)
        });
        let (weights, spent) = weights?;
        let (program, state) = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let model = Model { program, weights, memory, _freeing: Freeing::of(spent) };
        Ok(Self::session_of(Arc::new(model), state, size))
    }

    fn session_of(model: Arc<Model>, state: DeviceState, size: SessionSize) -> Self {
        let SessionSize { max_rows, n_seqs, n_ctx, .. } = size;
        let plan = &model.program.plan;
        let limits = plan.limits(n_ctx, max_rows, n_seqs);
        let session = Session::new(limits, &size.store_blocks(&model.program.stores));
        let session = session.encoding(plan.encoder.is_some()).with_adapters(plan.adapters);
        VulkanRunner {
            model,
            state,
            session,
            steps: Steps::new(SLOTS),
            recordings: Recent::new(RECORDINGS),
            timing: Timing::default(),
            latest: vec![0; n_seqs],
            left: None,
        }
    }

    /// Builds the pipelines that a prompt's chunks and single rows take, whether greedy or sampled.
    ///
    /// # Errors
    /// A module the driver refuses.
    pub fn build_ahead(&self) -> Result<()> {
        shapes::build_ahead(&self.model.program, &self.state, self.max_rows())
    }

    /// Builds the pipelines of steps of so many rows of a sequence, all with outputs.
    ///
    /// # Errors
    /// A module the driver refuses.
    pub(super) fn build_rows(&self, counts: &[usize]) -> Result<()> {
        shapes::build_rows(&self.model.program, &self.state, counts)
    }

    /// Builds the pipelines of every step that it can take, so that none is built later.
    ///
    /// # Errors
    /// A module the driver refuses.
    pub fn build_all(&self) -> Result<()> {
        let size = (self.max_rows(), self.session.limits().n_seqs);
        shapes::build_all(&self.model.program, &self.state, size)
    }

    /// The device it runs on.
    pub fn vk(&self) -> &Device {
        &self.model.program.device
    }

    /// Modules of the pipelines that were built so far.
    pub fn kernels(&self) -> BTreeSet<String> {
        self.model.program.kernels.modules()
    }

    /// Whether steps of many rows attend by cooperative matrices.
    pub fn attends_many_by_matrices(&self) -> bool {
        self.model.program.attends_by_matrices(&self.state).1
    }

    /// Bytes of the weights as the device holds them.
    pub fn weight_bytes(&self) -> u64 {
        self.model.weights.iter().map(Buffer::len_bytes).sum()
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.model.program.plan
    }

    /// Element types of the K and V caches.
    pub fn cache_types(&self) -> (CacheType, CacheType) {
        self.model.program.cache_types
    }

    /// Bytes that the runner was to take.
    pub fn memory_plan(&self) -> MemoryPlan {
        self.model.memory
    }

    /// Pipelines built so far.
    pub fn pipelines(&self) -> usize {
        self.model.program.kernels.pipeline_count()
    }

    /// Recordings kept.
    pub fn recordings(&self) -> usize {
        self.recordings.len()
    }

    /// Whether the time is taken after every op of the steps started from now on. Such steps have recordings of their own.
    pub fn stamp_ops(&mut self, on: bool) {
        self.timing.ops = on;
    }

    /// Whether steps of one row may let one dispatch do products that follow each other (the megakernel).
    pub fn has_megakernel(&self) -> bool {
        self.state.megakernel.kernel.is_some()
    }

    /// Whether they do in steps started from now on. Steps with stamps never do.
    pub fn use_megakernel(&mut self, on: bool) {
        self.state.megakernel.on = on;
    }

    /// GPU time of the last finished step.
    pub fn last_step(&self) -> &StepTime {
        &self.timing.last
    }

    /// Where the epochs of the next step with a megakernel start: at none that an earlier one left anywhere.
    fn next_epochs(&self) -> Result<u32> {
        let mega = &self.state.megakernel;
        if let Some(next) = mega.epochs.checked_add(EPOCHS).filter(|next| next.checked_add(EPOCHS).is_some()) {
            return Ok(next);
        }
        if let Some(last) = self.steps.iter().next_back() {
            self.vk().wait(last.value)?;
        }
        mega.kernel.iter().try_for_each(|(_, memory)| memory.clear(self.vk()))?;
        Ok(EPOCHS)
    }

    /// The recording of a shape.
    pub(super) fn find_or_record(&mut self, shape: Shape) -> Result<Arc<RecordedStep>> {
        if let Some(step) = self.recordings.get(&shape) {
            return Ok(step);
        }
        let program = &self.model.program;
        let (slot, len) = (&mut self.state.slots[shape.slot], (shape.logits * program.plan.n_vocab * 4) as u64);
        if shape.logits > 0 && slot.logits.as_ref().map_or(0, Buffer::len_bytes) < len {
            slot.logits = Some(program.device.buffer(&format!("logits.{}", shape.slot), len, Class::Readback)?);
            // They name the smaller buffer.
            self.recordings.retain(|s| s.slot != shape.slot || s.logits == 0);
        }
        let room = (shape.rows * program.plan.vectors * 4) as u64;
        if shape.vectors && slot.vectors.as_ref().map_or(0, Buffer::len_bytes) < room {
            slot.vectors = Some(program.device.buffer(&format!("vectors.{}", shape.slot), room, Class::Params)?);
            self.recordings.retain(|s| s.slot != shape.slot || !s.vectors);
        }
        let weights = &self.model.weights;
        let at = program.addresses(Some(weights), &self.state, shape.slot);
        let buffers = program.buffers(weights, &self.state, shape.slot);
        let step = record(&program.device, &program.kernels, &program.target(&at, &self.state), &buffers, shape)?;
        program.kernels.save();
        Ok(self.recordings.insert(shape, step))
    }

    /// Starts a step that is admitted.
    fn start_admitted(&mut self, rows: &[Row], checked: CheckedStep, slot: usize) -> Result<Ticket> {
        let timed = shapes::TimedParts { step: self.timing.steps, ops: self.timing.ops };
        let shape = shapes::shape_of(&self.model.program, &self.state, rows, checked, slot, timed);
        let outputs = outputs_of(rows, checked.one_each);
        let (requests, beside) = if checked.sampled {
            let listed: Vec<&Row> = outputs.iter().map(|o| &rows[o.row as usize]).collect();
            self.requests(&listed, slot)?
        } else {
            Default::default()
        };
        let step = self.find_or_record(shape)?;
        let epochs = if shape.megakernel { self.next_epochs()? } else { self.state.megakernel.epochs };
        self.state.megakernel.epochs = epochs;
        let copies = match self.session.blocks().copies() {
            [] => None,
            copies => Some(self.state.copies(&self.model.program, copies)?),
        };
        let disguise = shape.megakernel && self.model.program.debug.fault_at == Some(self.steps.started_count());
        self.state.slots[slot].write_inputs(rows, &self.session);
        let params = &mut self.state.slots[slot].params;
        params.write(rows, &outputs, self.session.blocks(), (shapes::singles(rows, checked), epochs));
        params.write_requests(&requests)?;
        if disguise {
            let n_vocab = self.model.program.plan.n_vocab as u32;
            params.write_rows(rows, self.session.blocks(), |token| match token {
                Token::Id(id) | Token::Source(id) => (id + 1) % n_vocab,
                Token::Sampled => 0,
            });
        }
        let value = submit(self.vk(), copies.as_ref(), &step.recording)?;
        let after_sampled = rows.iter().filter(|row| row.token == Token::Sampled).map(|row| row.seq).collect();
        let disguised = disguise.then(|| rows.to_vec());
        let flying = Flying {
            value,
            shape,
            step,
            copies,
            outputs,
            logits: checked.logits,
            after_sampled,
            spoilt: Vec::new(),
            choice: request::SamplingInputs { beside, waits: shape.later },
            disguised,
        };
        Ok(self.steps.push(flying))
    }

    /// Lets go of recordings that no step in flight uses, and of what grew in the next one's slot.
    fn free_what_can_be_made_again(&mut self, slot: usize) {
        self.recordings.retain(|_| false);
        let slot = &mut self.state.slots[slot];
        (slot.logits, slot.masks, slot.lists, slot.vectors) = (None, None, None, None);
    }

    /// Memory ran out amid a run: with the context that would have left enough.
    fn full(&self, error: Error) -> Error {
        let Error::OutOfMemory(what) = error else { return error };
        let n_seqs = self.session.limits().n_seqs;
        match self.model.memory.context_without(self.vk().last_refused_bytes(), n_seqs) {
            0 => Error::OutOfMemory(format!("{what}; no context would fit beside it")),
            fits => Error::OutOfMemory(format!("{what}; a context of {fits} would fit (-c)")),
        }
    }

    /// Takes the time of a finished step.
    fn time(&mut self, flying: &Flying) {
        let (device, step) = (self.model.program.device.clone(), &flying.step);
        let gpu_us = device.gpu_us(&step.recording).unwrap_or(0.0);
        let gpu_us = gpu_us + step.choice.as_ref().and_then(|choice| device.gpu_us(choice)).unwrap_or(0.0);
        self.timing.gpu_us += gpu_us;
        self.timing.last.gpu_us = gpu_us;
        if flying.shape.stamps {
            let ends = device.stamps_us(&step.recording).unwrap_or_default();
            self.timing.last.ends_us = step.stamped.iter().copied().zip(ends).collect();
            self.timing.last.plan = Some(step.plan.clone());
        }
    }
}

/// Submits copies of blocks and the step after them.
pub(super) fn submit(device: &Device, copies: Option<&Recording>, step: &Recording) -> Result<u64> {
    let copied = copies.map(|copies| device.submit(copies)).transpose()?;
    let value = device.submit(step);
    if let (Err(_), Some(copied)) = (&value, copied) {
        device.wait(copied)?; // nothing else keeps them
    }
    value
}

impl Runner for VulkanRunner {
    fn n_vocab(&self) -> usize {
        self.plan().n_vocab
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
        self.plan().encoder.map(|encoder| encoder.start)
    }

    fn shed(&mut self) {
        self.recordings.retain(|_| false);
        if self.steps.iter().next().is_none() {
            self.left = None;
            self.state.slots.iter_mut().for_each(|slot| slot.logits = None);
        }
    }

    fn adapters(&self) -> usize {
        self.session.adapters()
    }

    fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        self.session.set_adapter_scales(seq, scales)
    }

    fn start(&mut self, rows: &[Row]) -> Result<Ticket> {
        let slot = self.steps.next_slot()?;
        if self.steps.iter().any(|flying| flying.choice.waits) {
            return Err(Error::Request("a step: expected the one before to be told which ids are allowed".into()));
        }
        self.left = None;
        let checked = self.session.admit(rows)?;
        let ticket = match self.start_admitted(rows, checked, slot) {
            Err(Error::OutOfMemory(_)) => {
                self.free_what_can_be_made_again(slot);
                self.start_admitted(rows, checked, slot).map_err(|e| self.full(e))
            }
            other => other,
        };
        match ticket {
            Ok(_) => self.session.note_step(rows),
            Err(_) => self.session.undo(),
        }
        ticket
    }

    fn finish_each(&mut self, ticket: Ticket) -> Result<Output> {
        let oldest = self.steps.oldest(ticket)?;
        self.vk().wait(oldest.value)?;
        if oldest.shape.megakernel && (oldest.disguised.is_some() || self.state.megakernel.gave_up()) {
            self.replay()?;
        }
        let Some(flying) = self.steps.pop() else { return Ok(Output::default()) };
        self.time(&flying);
        self.left = self.steps.iter().next().is_none().then(|| (flying.step.logits_at, flying.outputs.clone()));
        self.output_of(&flying)
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn allows_later(&self) -> bool {
        true
    }

    fn allow(&mut self, ticket: Ticket, allowed: &[Allowed]) -> Result<()> {
        self.choose(ticket, allowed)
    }

    fn lists(&self) -> bool {
        self.plan().n_vocab <= request::MAX_VOCAB
    }

    fn last_logits(&mut self) -> Result<Vec<f32>> {
        self.read_last_logits()
    }

    fn fill_rows(&mut self, rows: &[f32]) {
        let weights = self.model.program.plan.weights.iter().zip(&self.model.weights);
        for (_, buffer) in weights.filter(|(info, _)| info.is_from_host()) {
            buffer.write(0, bytemuck::cast_slice(rows));
        }
    }

    fn time_steps(&mut self, on: bool) {
        self.timing.steps = on;
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        request::refusal(chain, self.plan().n_vocab)
    }

    fn forget(&mut self, seq: u32, from: u32) -> usize {
        self.session.forget(seq, from)
    }

    fn can_cut(&self, seq: u32, from: u32) -> bool {
        self.session.blocks().can_cut(seq as usize, from as usize)
    }

    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        self.session.fork(from, to, n_positions as usize)
    }

    fn sequence_len(&self, seq: u32) -> usize {
        self.session.blocks().sequence_len(seq)
    }

    fn state_layout(&self) -> String {
        self.state_layout()
    }

    fn save(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.save_kept(seq, false, to)
    }

    fn restore(&mut self, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.restore_kept((None, seq), from)
    }

    fn may_change(&self) -> Option<String> {
        let kernel = self.state.megakernel.kernel.is_some();
        kernel.then(|| "a megakernel, which another kernel takes over from where it gives up".into())
    }

    fn save_beside(&mut self, seq: u32, to: &mut dyn Write) -> Result<()> {
        self.save_kept(seq, true, to)
    }

    fn restore_beside(&mut self, beside: u32, seq: u32, from: &mut dyn Read) -> Result<()> {
        self.restore_kept((Some(beside), seq), from)
    }

    fn free_blocks(&self) -> usize {
        self.session.blocks().free(0)
    }

    fn blocks_needed(&self, rows: &[Row]) -> usize {
        self.session.blocks().blocks_needed(0, rows)
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.start_collecting()
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        self.read_squares()
    }

    fn counters(&self) -> Counters {
        let c = self.vk().counters();
        Counters {
            submits: c.submits,
            host_waits: c.host_waits,
            device_waits: c.device_waits,
            barriers: c.barriers,
            dispatches: c.dispatches,
            push_bytes: c.push_bytes,
            bytes_to_device: c.bytes_to_device,
            bytes_from_device: c.bytes_from_device,
            allocations: c.allocations,
            recordings: c.recordings,
            pipelines: c.pipelines,
            record_us: c.record_us,
            build_us: self.model.program.kernels.wait_us(),
            gpu_us: self.timing.gpu_us,
        }
    }

    fn device(&self) -> String {
        let caps = self.vk().caps();
        format!("{} ({})", caps.name, caps.driver)
    }
}

impl Drop for VulkanRunner {
    /// Recordings and buffers must outlive the steps in flight.
    fn drop(&mut self) {
        for step in self.steps.iter() {
            if let Err(e) = self.model.program.device.wait(step.value) {
                tracing::warn!("a step in flight at the end: {e}");
            }
        }
    }
}
