//! The Vulkan interpreter: memory planned before it is taken, one recording per step shape, two steps in flight.

use super::kv::{Blocks, KV_BLOCK};
use super::memory::{self, MemoryPlan};
use super::params::{Layout, Params};
use super::{draw, weights, CacheType, Options, Progress};
use crate::exec::{self, Buffers, MegakernelMemory, PackedMemory, SplitReductionMemory, Stamped, Step};
use crate::gguf::Gguf;
use crate::kernel::Kernels;
use crate::lower::megakernel::{Choices, Megakernel, EPOCHS};
use crate::lower::{sizes, Addresses, PackedAt, Shape, Target};
use crate::plan::Plan;
use crate::policy::{self, Activations};
use crate::sample::SamplerOptions;
use crate::step::{Counters, Limits, Output, Row, Runner, Squares, Ticket, Want};
use crate::vk::{self, Buffer, Class, Device};
use crate::{Error, Result};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Steps in flight, each with its own parameters and results.
const SLOTS: usize = 2;
/// Rows of prompts shorter than a chunk whose products take tiles of their own.
const SHORT_PROMPTS: [usize; 4] = [20, 40, 64, 128];
/// Most bytes of logits one step may hold; the rows of a step follow from it for large vocabularies.
const MAX_LOGITS_BYTES: usize = 256 << 20;

struct Slot {
    params: Params,
    ids: Buffer,
    logits: Option<Buffer>,
}

struct Pending {
    ticket: Ticket,
    value: u64,
    shape: Shape,
    wanted: usize,
}

/// GPU time of a step.
#[derive(Clone, Debug, Default)]
pub struct StepTime {
    /// All of it, microseconds.
    pub gpu_us: f64,
    /// Ops that were stamped, in order, and when each had ended, microseconds after the start.
    pub ends_us: Vec<(Stamped, f64)>,
    /// The plan that these are ops of: with ops merged.
    pub plan: Option<Arc<Plan>>,
}

/// Runs a plan on a Vulkan device.
pub struct VulkanRunner {
    device: Device,
    plan: Arc<Plan>,
    limits: Limits,
    kernels: Arc<Kernels>,
    weights: Vec<Buffer>,
    caches: Vec<(Buffer, Buffer)>,
    cache_types: (CacheType, CacheType),
    codebooks: Buffer,
    arena: Buffer,
    ropes: Buffer,
    sampled: Buffer,
    layout: Layout,
    slots: Vec<Slot>,
    blocks: Blocks,
    recordings: HashMap<Shape, Step>,
    pending: VecDeque<Pending>,
    started: u64,
    gpu_us: f64,
    timed: bool,
    stamps: bool,
    last: StepTime,
    importance: Option<Buffer>,
    fuse: bool,
    attn_heads: Option<usize>,
    split_reduction: SplitReductionMemory,
    packed: Option<PackedMemory>,
    megakernel: Option<(Megakernel, MegakernelMemory)>,
    /// Few rows attend by cooperative matrices.
    by_matrices: bool,
    chained: bool,
    activations: Activations,
    /// Where tags of the last chained step started.
    tags: u32,
    fault: Buffer,
    freeing: Freeing,
}

/// What lets go of an upload's memory beside the first step; waited for, as a process must not end amid it.
#[derive(Default)]
struct Freeing(Option<std::thread::JoinHandle<()>>);

impl Drop for Freeing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Most rows of a step.
fn max_rows(plan: &Plan, options: &Options) -> usize {
    (options.max_rows.max(1) as usize).min((MAX_LOGITS_BYTES / (plan.n_vocab * 4)).max(1))
}

impl VulkanRunner {
    /// Uploads the weights of `plan`; meanwhile takes all memory a run needs and builds the pipelines of usual steps.
    ///
    /// # Errors
    /// A weight that is not finite; memory that does not suffice, with the numbers; a lost device.
    pub fn new(gguf: &Gguf, plan: Plan, device: Device, options: &Options, progress: Progress<'_>) -> Result<Self> {
        let max_rows = max_rows(&plan, options);
        let matrices = options.debug.matrices && !device.caps().matrix_wide.is_empty();
        let packed = sizes::Packed::of(&plan, max_rows);
        let arena = Self::arena_bytes(&plan, &device, options, (max_rows, matrices.then_some(&packed)));
        let scratch = arena + if matrices { packed.len_bytes() } else { 0 };
        let (plan, memory) = memory::fitted(plan, device.caps(), device.stages_weights(), options, scratch)?;
        if plan.weights.iter().any(|w| w.format.is_wide()) {
            tracing::info!("load: weights of codebooks are written out, for speed");
        }
        let (plan, kernels) = (Arc::new(plan), Arc::new(Kernels::new(&device)));
        let codebooks = weights::codebooks(&device)?;
        let (made, weights) = std::thread::scope(|scope| {
            let made = scope.spawn({
                let (plan, kernels, codebooks) = (plan.clone(), kernels.clone(), codebooks.clone());
                let device = device.clone();
                || {
                    let runner = Self::without_weights(plan, (kernels, codebooks), device, options, arena, memory)?;
                    if policy::builds_ahead(runner.device.caps()) {
                        runner.build_ahead()?;
                    }
                    Ok::<_, Error>(runner)
                }
            });
            let weights = weights::upload(&device, (&kernels, &codebooks), gguf, &plan, progress);
            (made.join(), weights)
        });
        let (weights, spent) = weights?;
        let mut runner = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        runner.weights = weights;
        runner.freeing = Freeing(Some(std::thread::spawn(|| drop(spent))));
        Ok(runner)
    }

    /// Everything but the weights, in whose places any buffer stands.
    fn without_weights(
        plan: Arc<Plan>,
        (kernels, codebooks): (Arc<Kernels>, Buffer),
        device: Device,
        options: &Options,
        arena_bytes: u64,
        memory: MemoryPlan,
    ) -> Result<Self> {
        let (max_rows, n_seqs) = (max_rows(&plan, options), options.n_seqs.max(1) as usize);
        let positions = memory.blocks * KV_BLOCK;
        let mut caches = Vec::with_capacity(plan.layers.len());
        for (layer, state) in plan.layers.iter().enumerate() {
            let (k, v) = state.kv().map_or((0, 0), |kv| (kv.k_width(), kv.v_width()));
            let bytes = |t: CacheType, width: usize| t.bytes((positions * width) as u64).max(16);
            let k = device.buffer(&format!("k.{layer}"), bytes(options.cache_type_k, k), Class::State)?;
            let v = device.buffer(&format!("v.{layer}"), bytes(options.cache_type_v, v), Class::State)?;
            caches.push((k, v));
        }
        let split_reduction = sizes::split_reduction(device.caps(), &plan, max_rows);
        let split_reduction = SplitReductionMemory::new(&device, split_reduction)?;
        let held = if options.debug.matrices { exec::fragment_layout(&device, &kernels)? } else { None };
        let packed = match held {
            Some(held) => PackedMemory::new(&device, &sizes::Packed::of(&plan, max_rows), held)?,
            None => None,
        };
        let activations = options.activations.unwrap_or_else(|| policy::activations(device.caps()));
        let halves = options.cache_type_k == CacheType::F16 && options.cache_type_v == CacheType::F16;
        let choices = Choices { wanted: options.debug.chain, activations, halves };
        let megakernel = match Megakernel::of(&plan, device.caps(), choices).filter(|_| options.debug.fuse) {
            Some(kernel) => MegakernelMemory::new(&device, &kernels, &kernel)?.map(|memory| (kernel, memory)),
            None => None,
        };
        let fault = device.buffer("fault", 4, Class::Readback)?;
        fault.write(0, &[0; 4]);
        let arena = device.buffer("scratch", arena_bytes, Class::Scratch)?;
        let tables = plan.ropes.concat();
        let ropes = device.buffer("ropes", (4 * tables.len() as u64).max(16), Class::Params)?;
        ropes.write(0, bytemuck::cast_slice(&tables));
        let sampled = device.buffer("sampled", 4 * n_seqs as u64, Class::Scratch)?;
        let layout = Layout::new(max_rows, n_seqs, memory.blocks.div_ceil(n_seqs));
        let mut slots = Vec::with_capacity(SLOTS);
        for i in 0..SLOTS {
            let buffer = device.buffer(&format!("params.{i}"), layout.len_bytes(), Class::Params)?;
            let ids = device.buffer(&format!("ids.{i}"), 4 * max_rows as u64, Class::Readback)?;
            slots.push(Slot { params: Params::new(buffer, layout), ids, logits: None });
        }
        let mut runner = VulkanRunner {
            kernels,
            limits: Limits { n_vocab: plan.n_vocab, n_ctx: memory.n_ctx, max_rows, n_seqs },
            cache_types: (options.cache_type_k, options.cache_type_v),
            fuse: options.debug.fuse,
            attn_heads: options.debug.attn_heads.map(|n| n.clamp(1, policy::ATTN_HEADS)),
            blocks: Blocks::new(memory.blocks, n_seqs),
            recordings: HashMap::new(),
            pending: VecDeque::new(),
            started: 0,
            gpu_us: 0.0,
            timed: false,
            stamps: false,
            last: StepTime::default(),
            importance: None,
            split_reduction,
            packed,
            megakernel,
            by_matrices: false,
            chained: true,
            activations,
            tags: u32::MAX - 40 * EPOCHS, // so that what happens once in millions of steps happens in every test
            fault,
            freeing: Freeing::default(),
            device,
            weights: vec![arena.clone(); plan.weights.len()],
            caches,
            codebooks,
            arena,
            ropes,
            sampled,
            layout,
            slots,
            plan,
        };
        runner.by_matrices = runner.target(&runner.addresses(0)).attends_by_matrices();
        Ok(runner)
    }

    /// Builds the pipelines that a prompt's chunks and single rows take, whether greedy or drawn.
    ///
    /// # Errors
    /// A module the driver refuses.
    pub fn build_ahead(&self) -> Result<()> {
        let begun = Instant::now();
        let (mut keys, at) = (HashSet::new(), self.addresses(0));
        let shorter = SHORT_PROMPTS.iter().copied().filter(|rows| *rows < self.limits.max_rows);
        let shapes = [1, self.limits.max_rows].into_iter().flat_map(|rows| [(rows, false), (rows, true)]);
        let shapes = shapes.chain(shorter.map(|rows| (rows, false)));
        let lens = [1, 1 << 10, 1 << 20].map(|len: usize| len.min(self.limits.n_ctx));
        for ((rows, drawn), len) in shapes.flat_map(|shape| lens.map(|len| (shape, len))) {
            let heads = policy::attn_heads(self.device.caps(), self.by_matrices, len);
            let parts = if rows == 1 { self.chain_parts(len) } else { 0 };
            let shape = Shape {
                slot: 0,
                rows,
                wanted: 1,
                logits: false,
                drawn,
                heads,
                apart: rows == 1,
                chained: true,
                parts,
                timed: false,
                stamps: false,
            };
            keys.extend(exec::pipelines(&self.kernels, &self.target(&at), shape)?);
        }
        self.kernels.build_all(keys, rayon::current_num_threads())?;
        self.kernels.save();
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        tracing::info!("load: {} pipelines, {ms:.0} ms beside the weights", self.kernels.built());
        Ok(())
    }

    /// Bytes of the scratch arena, whatever shape a step has.
    fn arena_bytes(
        plan: &Plan,
        device: &Device,
        options: &Options,
        (max_rows, packed): (usize, Option<&sizes::Packed>),
    ) -> u64 {
        let activations = options.activations.unwrap_or_else(|| policy::activations(device.caps()));
        let at = Addresses::default();
        let target = Target {
            plan,
            caps: device.caps(),
            at: &at,
            planes: device.stages_weights(),
            fuse: options.debug.fuse,
            max_rows,
            n_ctx: 1,
            cache_types: (options.cache_type_k, options.cache_type_v),
            activations,
            draws_at: 0,
            importance: false,
            packing: packed.map(|sizes| sizes.packing(true, true)),
            megakernel: None,
        };
        sizes::arena(&target)
    }

    /// Where all lies that recordings for a slot name.
    fn addresses(&self, slot: usize) -> Addresses {
        let slot = &self.slots[slot];
        let megakernel = self.megakernel.as_ref().map(|(_, memory)| memory);
        Addresses {
            arena: self.arena.address(),
            weights: self.weights.iter().map(Buffer::address).collect(),
            states: self.caches.iter().map(|(k, v)| [k.address(), v.address()]).collect(),
            codebooks: self.codebooks.address(),
            ropes: self.ropes.address(),
            sampled: self.sampled.address(),
            params: slot.params.buffer.address(),
            ids: slot.ids.address(),
            partials: self.split_reduction.partials.address(),
            arrivals: self.split_reduction.arrivals.address(),
            fault: self.fault.address(),
            importance: self.importance.as_ref().map_or(0, Buffer::address),
            words: 0,
            packed: self.packed.as_ref().map_or_else(PackedAt::default, PackedMemory::addresses),
            gave_up: megakernel.map_or(0, |memory| memory.gave_up.address()),
            messages: megakernel.map_or(0, |memory| memory.messages.address()),
        }
    }

    /// What recordings are lowered for.
    fn target<'a>(&'a self, at: &'a Addresses) -> Target<'a> {
        Target {
            plan: &self.plan,
            caps: self.device.caps(),
            at,
            planes: self.device.stages_weights(),
            fuse: self.fuse,
            max_rows: self.limits.max_rows,
            n_ctx: self.limits.n_ctx,
            cache_types: self.cache_types,
            activations: self.activations,
            draws_at: self.layout.draws_at(),
            importance: self.importance.is_some(),
            packing: self.packed.as_ref().map(PackedMemory::packing),
            megakernel: self.megakernel.as_ref().map(|(kernel, _)| kernel),
        }
    }

    /// The buffers that recordings for a slot keep.
    fn buffers(&self, slot: usize) -> Buffers<'_> {
        let slot = &self.slots[slot];
        let mut kept: Vec<&Buffer> = self.weights.iter().collect();
        kept.extend([&self.codebooks, &self.arena, &self.ropes, &self.sampled, &slot.params.buffer, &slot.ids]);
        kept.extend([&self.split_reduction.partials, &self.split_reduction.arrivals, &self.fault]);
        kept.extend(self.megakernel.iter().flat_map(|(_, memory)| [&memory.gave_up, &memory.messages]));
        kept.extend(self.packed.iter().flat_map(PackedMemory::buffers));
        kept.extend(self.caches.iter().flat_map(|(k, v)| [k, v]).chain(&self.importance));
        Buffers { arena: &self.arena, logits: slot.logits.as_ref(), kept }
    }

    /// The device it runs on.
    pub fn vk(&self) -> &Device {
        &self.device
    }

    /// Whether steps of many rows attend by cooperative matrices.
    pub fn attends_many_by_matrices(&self) -> bool {
        self.target(&self.addresses(0)).attends_many_by_matrices()
    }

    /// Bytes of the weights as the device holds them.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.iter().map(Buffer::len_bytes).sum()
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Element types of the K and V caches.
    pub fn cache_types(&self) -> (CacheType, CacheType) {
        self.cache_types
    }

    /// Pipelines built so far.
    pub fn pipelines(&self) -> usize {
        self.kernels.built()
    }

    /// Whether the time is taken after every op of the steps started from now on. Such steps have recordings of their own.
    pub fn stamp_ops(&mut self, on: bool) {
        self.stamps = on;
    }

    /// Whether steps of one row may let one dispatch do products that follow each other.
    pub fn chains(&self) -> bool {
        self.megakernel.is_some()
    }

    /// Whether they do in steps started from now on. Steps with stamps never do.
    pub fn chain_products(&mut self, on: bool) {
        self.chained = on;
    }

    /// GPU time of the last finished step.
    pub fn last_step(&self) -> &StepTime {
        &self.last
    }

    /// Where the tags of the next chained step start: at none that an earlier one left anywhere.
    /// Parts in which a chain attends to `len` positions; 0 where attention is a dispatch, as it is with as many heads as asked.
    fn chain_parts(&self, len: usize) -> u32 {
        self.megakernel.as_ref().filter(|_| self.attn_heads.is_none()).map_or(0, |(kernel, _)| kernel.parts(len))
    }

    fn next_tags(&mut self) -> Result<u32> {
        if let Some(next) = self.tags.checked_add(EPOCHS).filter(|next| next.checked_add(EPOCHS).is_some()) {
            return Ok(next);
        }
        if let Some(last) = self.pending.back() {
            self.device.wait(last.value)?;
        }
        self.megakernel.iter().try_for_each(|(_, memory)| memory.clear(&self.device))?;
        Ok(EPOCHS)
    }

    fn ensure_recorded(&mut self, shape: Shape) -> Result<()> {
        if self.recordings.contains_key(&shape) {
            return Ok(());
        }
        let slot = &mut self.slots[shape.slot];
        if shape.logits
            && slot.logits.as_ref().map_or(0, |b| b.len_bytes()) < (shape.wanted * self.plan.n_vocab * 4) as u64
        {
            let len = (shape.wanted * self.plan.n_vocab * 4) as u64;
            slot.logits = Some(self.device.buffer(&format!("logits.{}", shape.slot), len, Class::Readback)?);
            self.recordings.retain(|s, _| s.slot != shape.slot || !s.logits); // they name the smaller buffer
        }
        let at = self.addresses(shape.slot);
        let step = exec::record(&self.device, &self.kernels, &self.target(&at), &self.buffers(shape.slot), shape)?;
        self.kernels.save();
        self.recordings.insert(shape, step);
        Ok(())
    }
}

impl Runner for VulkanRunner {
    fn n_vocab(&self) -> usize {
        self.plan.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.limits.n_ctx
    }

    fn max_rows(&self) -> usize {
        self.limits.max_rows
    }

    fn start(&mut self, rows: &[Row], want: Want<'_>) -> Result<Ticket> {
        self.limits.check(rows)?;
        if self.pending.len() >= SLOTS {
            return Err(Error::Request(format!(
                "steps in flight: expected below {SLOTS}, found {}",
                self.pending.len()
            )));
        }
        Limits::check_draws(rows, want)?;
        let draws = draw::pack(rows, want.draws(), self.plan.n_vocab, self.layout.draws_at())?;
        for row in rows {
            self.blocks.hold(row.seq, row.pos)?;
        }
        let wanted = rows.iter().filter(|r| r.wanted).count();
        // Many rows of a sequence have an attention of their own, which is the same for all lengths.
        let apart = rows.iter().map(|row| row.seq).collect::<HashSet<_>>().len() == rows.len();
        let single = apart || rows.len() <= policy::FEW_ROWS;
        let longest = rows.iter().filter(|_| single).map(|row| row.pos as usize + 1).max().unwrap_or(0);
        let shape = Shape {
            apart,
            slot: (self.started % SLOTS as u64) as usize,
            rows: exec::bucket(rows.len(), self.limits.max_rows),
            wanted: exec::bucket(wanted, self.limits.max_rows),
            logits: want == Want::Logits && wanted > 0,
            drawn: want.draws().iter().any(|draw| !draw.options.is_argmax()),
            heads: self.attn_heads.unwrap_or_else(|| policy::attn_heads(self.device.caps(), self.by_matrices, longest)),
            chained: self.megakernel.is_some() && self.chained && !self.stamps,
            parts: if rows.len() == 1 { self.chain_parts(longest) } else { 0 },
            timed: self.timed,
            stamps: self.stamps,
        };
        self.ensure_recorded(shape)?;
        if shape.chained {
            self.tags = self.next_tags()?;
        }
        let params = &mut self.slots[shape.slot].params;
        params.write(rows, &self.blocks, self.tags);
        if shape.drawn {
            params.write_draws(&draws)?;
        }
        let value = self.device.submit(&self.recordings[&shape].recording)?;
        self.started += 1;
        let ticket = Ticket(self.started);
        self.pending.push_back(Pending { ticket, value, shape, wanted });
        Ok(ticket)
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        if self.pending.front().is_none_or(|p| p.ticket != ticket) {
            return Err(Error::Request(format!("step {}: expected the oldest step in flight", ticket.0)));
        }
        let Some(Pending { value, shape, wanted, .. }) = self.pending.pop_front() else {
            return Ok(Output::default());
        };
        self.device.wait(value)?;
        if let Some(step) = self.recordings.get(&shape) {
            let gpu_us = self.device.gpu_us(&step.recording).unwrap_or(0.0);
            self.gpu_us += gpu_us;
            self.last.gpu_us = gpu_us;
            if shape.stamps {
                let ends = self.device.stamps_us(&step.recording).unwrap_or_default();
                self.last.ends_us = step.stamped.iter().copied().zip(ends).collect();
                self.last.plan = Some(step.plan.clone());
            }
        }
        let mut fault = [0; 4];
        if shape.chained {
            self.fault.read(0, &mut fault);
        }
        if fault != [0; 4] {
            self.megakernel = None; // recordings keep what they name
            let name = &self.device.caps().name;
            let what =
                format!("device {name}: expected the workgroups of a dispatch to run at once, found them waiting");
            return Err(Error::Device(format!("{what}; from now on every product has a dispatch of its own")));
        }
        let slot = &self.slots[shape.slot];
        let mut output = Output { ids: vec![0; wanted], logits: Vec::new() };
        if wanted > 0 {
            slot.ids.read(0, bytemuck::cast_slice_mut(&mut output.ids));
        }
        if let (true, Some(host)) = (shape.logits, &slot.logits) {
            output.logits = vec![0.0; wanted * self.plan.n_vocab];
            host.read(0, bytemuck::cast_slice_mut(&mut output.logits));
        }
        Ok(output)
    }

    fn time_steps(&mut self, on: bool) {
        self.timed = on;
    }

    fn refuses(&self, chain: &SamplerOptions) -> Option<String> {
        draw::refusal(chain, self.plan.n_vocab)
    }

    fn forget(&mut self, seq: u32, from: u32) {
        self.blocks.forget(seq, from);
    }

    fn collect_importance(&mut self) -> Result<()> {
        let len: usize = self.plan.inputs().iter().map(|input| input.floats()).sum();
        let zeros = vec![0u8; 4 * len];
        let sums = self.device.buffer("importance", zeros.len() as u64, Class::Scratch)?;
        vk::send(&self.device, &sums, &zeros)?;
        self.importance = Some(sums);
        self.recordings.clear();
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        let Some(sums) = &self.importance else { return Ok(Vec::new()) };
        let host = self.device.buffer("importance", sums.len_bytes(), Class::Readback)?;
        let mut recorder = self.device.recorder()?;
        recorder.copy(sums, 0, &host, 0, sums.len_bytes());
        recorder.host_barrier();
        let recording = recorder.finish()?;
        self.device.wait(self.device.submit(&recording)?)?;
        let (mut out, mut at) = (Vec::new(), 0);
        for input in self.plan.inputs() {
            let mut values = vec![0f32; input.floats()];
            host.read(4 * at as u64, bytemuck::cast_slice_mut(&mut values));
            at += input.floats();
            out.push(self.plan.squares(&input, values));
        }
        Ok(out)
    }

    fn counters(&self) -> Counters {
        let c = self.device.counters();
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
            record_us: c.record_us,
            gpu_us: self.gpu_us,
        }
    }

    fn device(&self) -> String {
        let caps = self.device.caps();
        format!("{} ({})", caps.name, caps.driver)
    }
}

impl Drop for VulkanRunner {
    /// Recordings and buffers must outlive the steps in flight.
    fn drop(&mut self) {
        for step in &self.pending {
            if let Err(e) = self.device.wait(step.value) {
                tracing::warn!("a step in flight at the end: {e}");
            }
        }
    }
}
