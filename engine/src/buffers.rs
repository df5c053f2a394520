//! What one session has on the device: caches, scratch, and a slot of parameters and results for each step in flight.

use super::params::{Params, ParamsLayout};
use super::program::Program;
use super::CacheType;
use crate::exec;
use crate::exec::{MegakernelMemory, PackedMemory, SplitReductionMemory};
use crate::session::{BlockCopy, Rule, Session, Stores, KV_BLOCK};
use pumex_gguf::Result;
use pumex_lower::megakernel::{MegakernelOptions, EPOCHS};
use pumex_lower::policy::PackedRowsRequest;
use pumex_lower::{megakernel, sizes};
use pumex_plan::LayerState;
use pumex_step::Row;
use pumex_vk::{Buffer, Class, Recording, LEAST_BYTES};

/// Recordings kept beside those in flight: a decoding server's for each slot, number of rows and width of attention.
pub(super) const RECORDINGS: usize = 128;

/// Steps in flight, each with its own parameters and results.
pub(super) const SLOTS: usize = 2;

/// Parameters and results of a step.
pub(super) struct StepBuffers {
    /// What changes per step.
    pub params: Params,
    /// An id per output row.
    pub ids: Buffer,
    /// Logits of the rows that want them; as large as the largest step so far.
    pub logits: Option<Buffer>,
    /// Masks of its output rows, as large as those of any step so far.
    pub masks: Option<Buffer>,
    /// The shortlists of its output rows, as large as those of any step so far.
    pub lists: Option<Buffer>,
    /// Vectors of its rows, as large as the largest step with such so far.
    pub vectors: Option<Buffer>,
    /// Scales of each row's adapters; none where sequences have none.
    pub adapter_scales: Option<Buffer>,
}

/// The megakernel of a session, until it gives up once.
pub(super) struct Megakernel {
    /// Its shape and memory; none where steps of one row have a dispatch per op.
    pub kernel: Option<(megakernel::Megakernel, MegakernelMemory)>,
    /// Whether steps started from now on use it.
    pub on: bool,
    /// Where the epochs of its last step started.
    pub epochs: u32,
    /// 1 once a workgroup waited in vain.
    pub fault: Buffer,
}

impl Megakernel {
    /// Whether a workgroup of a finished step waited in vain.
    pub fn gave_up(&self) -> bool {
        let mut fault = [0; 4];
        self.fault.read(0, &mut fault);
        fault != [0; 4]
    }
}

/// A session's memory.
pub(super) struct DeviceState {
    /// K and V of each layer, or its recurrent states.
    pub caches: Vec<(Buffer, Buffer)>,
    /// Values of the plan.
    pub arena: Buffer,
    /// Id per sequence, see [`ParamsLayout::sampled_word_count`].
    pub sampled: Buffer,
    /// The layout of the parameters.
    pub layout: ParamsLayout,
    /// By slot.
    pub slots: Vec<StepBuffers>,
    /// Split reductions.
    pub split_reduction: SplitReductionMemory,
    /// ActivationQuant for cooperative matrices.
    pub packed: Option<PackedMemory>,
    /// Layers of one row in one dispatch.
    pub megakernel: Megakernel,
    /// Sums of squares, once somebody wants them.
    pub importance: Option<Buffer>,
}

/// Sizes that a session's memory follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionSize {
    /// Most rows of a step.
    pub max_rows: usize,
    /// Sequences.
    pub n_seqs: usize,
    /// Positions a sequence may have.
    pub n_ctx: usize,
    /// Blocks of the cache of all positions.
    pub blocks: usize,
    /// Kinds of state.
    pub stores: usize,
}

impl SessionSize {
    /// Rule and blocks of each store.
    pub fn store_blocks(&self, stores: &Stores) -> Vec<(Rule, usize)> {
        stores.store_blocks(self.blocks, self.n_seqs, self.n_ctx, self.max_rows)
    }

    /// Where parameters lie.
    pub fn layout(&self) -> ParamsLayout {
        ParamsLayout::new(self.max_rows, self.n_seqs, self.n_ctx.div_ceil(KV_BLOCK), self.stores)
    }
}

/// Bytes of a block of a layer's K and of its V, or of a recurrent state; 0 of a layer that keeps none.
pub(super) fn block_bytes(layer: &LayerState, (k, v): (CacheType, CacheType)) -> [u64; 2] {
    match layer {
        LayerState::Nothing => [0, 0],
        LayerState::KeysValues(kv) => {
            [k.bytes((KV_BLOCK * kv.k_width()) as u64), v.bytes((KV_BLOCK * kv.v_width()) as u64)]
        }
        LayerState::Recurrent(state) => [4 * state.elements() as u64, 0],
    }
}

/// Bytes of a layer's two buffers, in stores of so many blocks.
pub(super) fn state_bytes(
    (i, layer): (usize, &LayerState),
    types: (CacheType, CacheType),
    stores: &Stores,
    sized: &[(Rule, usize)],
) -> [u64; 2] {
    let blocks = stores.of_layer(i).map_or(0, |store| sized[store].1) as u64;
    block_bytes(layer, types).map(|bytes| (bytes * blocks).max(LEAST_BYTES))
}

impl DeviceState {
    /// Takes all of it.
    ///
    /// # Errors
    /// Memory that ran out, a module the driver refuses, a lost device.
    pub fn new(program: &Program, size: SessionSize) -> Result<DeviceState> {
        let Program { device, kernels, plan, debug, .. } = program;
        let (k, v) = program.cache_types;
        let sized = size.store_blocks(&program.stores);
        let mut caches = Vec::with_capacity(plan.layers.len());
        for (i, layer) in plan.layers.iter().enumerate() {
            let [k_bytes, v_bytes] = state_bytes((i, layer), program.cache_types, &program.stores, &sized);
            let cache = |name: &str, bytes: u64| device.buffer(&format!("{name}.{i}"), bytes, Class::State);
            caches.push((cache("k", k_bytes)?, cache("v", v_bytes)?));
        }
        let split_reduction = sizes::split_reduction(device.caps(), plan, size.max_rows);
        let split_reduction = SplitReductionMemory::new(device, split_reduction)?;
        let held = if debug.matrices { exec::fragment_layout(device, kernels)? } else { None };
        let packed = match debug.matrices {
            true => {
                let asked = PackedRowsRequest { forced: debug.many_rows, activations: program.activations };
                PackedMemory::new(device, &sizes::Packed::of(plan, size.max_rows, device.caps(), asked), held, asked)?
            }
            false => None,
        };
        let halves = k == CacheType::F16 && v == CacheType::F16;
        let choices = MegakernelOptions {
            wanted: debug.megakernel,
            groups: debug.megakernel_groups,
            activations: program.activations,
            halves,
        };
        let kernel = megakernel::Megakernel::of(plan, device.caps(), choices).filter(|_| debug.fuse);
        let kernel = match kernel {
            Some(kernel) => MegakernelMemory::new(device, kernels, &kernel)?.map(|memory| (kernel, memory)),
            None => None,
        };
        let fault = device.buffer("fault", 4, Class::Readback)?;
        fault.write(0, &[0; 4]);
        // So that what happens once in millions of steps happens in every test.
        let epochs = u32::MAX - 40 * EPOCHS;
        let arena = device.buffer("scratch", program.arena_bytes, Class::Scratch)?;
        let layout = size.layout();
        let sampled = device.buffer("sampled", 4 * layout.sampled_word_count() as u64, Class::Scratch)?;
        let slots =
            (0..SLOTS).map(|i| StepBuffers::new(program, i, layout, size.max_rows)).collect::<Result<Vec<_>>>()?;
        let megakernel = Megakernel { kernel, on: true, epochs, fault };
        Ok(DeviceState { caches, arena, sampled, layout, slots, split_reduction, packed, megakernel, importance: None })
    }

    /// Records copies of blocks, of all layers of their store.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn copies(&self, program: &Program, copies: &[BlockCopy]) -> Result<Recording> {
        let mut recorder = program.device.recorder_untimed()?;
        for (i, ((cache_k, cache_v), layer)) in self.caches.iter().zip(&program.plan.layers).enumerate() {
            let [k_block, v_block] = block_bytes(layer, program.cache_types);
            let of_layer = || copies.iter().filter(|copy| program.stores.of_layer(i) == Some(copy.store));
            for (cache, len) in [(cache_k, k_block), (cache_v, v_block)].into_iter().filter(|(_, len)| *len > 0) {
                for copy in of_layer() {
                    recorder.copy(cache, u64::from(copy.from) * len, cache, u64::from(copy.to) * len, len);
                }
            }
        }
        recorder.finish()
    }
}

impl StepBuffers {
    fn new(program: &Program, i: usize, layout: ParamsLayout, max_rows: usize) -> Result<StepBuffers> {
        let device = &program.device;
        let scales = |n: usize| device.buffer(&format!("scales.{i}"), (4 * max_rows * n) as u64, Class::Params);
        let adapter_scales = Some(program.plan.adapters).filter(|n| *n > 0).map(scales).transpose()?;
        let buffer = device.buffer(&format!("params.{i}"), layout.len_bytes(), Class::Params)?;
        let ids = device.buffer(&format!("ids.{i}"), 4 * max_rows as u64, Class::Readback)?;
        Ok(StepBuffers {
            params: Params::new(buffer, layout),
            ids,
            logits: None,
            masks: None,
            lists: None,
            vectors: None,
            adapter_scales,
        })
    }

    /// Writes what rows bring beside ids: vectors, and the scales of their sequences' adapters.
    pub fn write_inputs(&self, rows: &[Row], session: &Session) {
        self.write_vectors(rows);
        self.write_adapter_scales(rows, session);
    }

    /// Writes the scales that the sequences of rows have for adapters.
    fn write_adapter_scales(&self, rows: &[Row], session: &Session) {
        let Some(buffer) = &self.adapter_scales else { return };
        for (i, row) in (0u64..).zip(rows) {
            let bytes: &[u8] = bytemuck::cast_slice(session.adapter_scales(row.seq));
            buffer.write(i * bytes.len() as u64, bytes);
        }
    }

    /// Writes the vectors that rows are, one behind the other, where there is room for them.
    fn write_vectors(&self, rows: &[Row]) {
        let Some(buffer) = &self.vectors else { return };
        for (i, medium) in (0u64..).zip(rows.iter().filter_map(|row| row.medium.as_ref())) {
            let bytes: &[u8] = bytemuck::cast_slice(medium.vector());
            buffer.write(i * bytes.len() as u64, bytes);
        }
    }
}
