//! What sessions of one model share: the plan, its pipelines and places, and the weights. Nothing of it changes.

use super::{CacheType, Debug, Options};
use crate::kernel::Kernels;
use crate::session::Stores;
use pumex_gguf::Result;
use pumex_lower::policy::{ActivationQuant, MatrixLayout, PackedRowsRequest};
use pumex_lower::{policy, sizes, Addresses, Target};
use pumex_plan::Plan;
use pumex_vk::{Buffer, Caps, Class, Device};
use std::sync::Arc;

/// What there is before a model is known.
pub(super) struct Bases {
    /// The device.
    pub device: Device,
    /// Its pipelines.
    pub kernels: Arc<Kernels>,
    /// Tables of all formats.
    pub codebooks: Buffer,
}

/// All but the weights.
pub(super) struct Program {
    /// The device.
    pub device: Device,
    /// Its pipelines.
    pub kernels: Arc<Kernels>,
    /// What runs.
    pub plan: Arc<Plan>,
    /// Bytes of a session's scratch arena, where its values lie.
    pub arena_bytes: u64,
    /// Tables of all formats.
    pub codebooks: Buffer,
    /// Tables of RoPE, one after the other.
    pub ropes: Buffer,
    /// Elements of K and V.
    pub cache_types: (CacheType, CacheType),
    /// Codes of activations in products by integers.
    pub activations: ActivationQuant,
    /// What tests choose.
    pub debug: Debug,
    /// Which kinds of state layers keep.
    pub stores: Stores,
    /// Positions a sequence may have.
    pub n_ctx: usize,
}

impl Program {
    /// For sequences of up to `n_ctx` positions.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn new(on: Bases, plan: Arc<Plan>, arena_bytes: u64, options: &Options, n_ctx: usize) -> Result<Program> {
        let Bases { device, kernels, codebooks } = on;
        let plan = match &plan.long_ropes {
            Some(_) => Arc::new(Arc::unwrap_or_clone(plan).for_context(n_ctx)),
            None => plan,
        };
        let tables = plan.tables();
        let ropes = device.buffer("ropes", ropes_bytes(&plan), Class::Params)?;
        ropes.write(0, bytemuck::cast_slice(&tables));
        Ok(Program {
            cache_types: options.cache_types(),
            activations: options.activations.unwrap_or_else(|| policy::activations(device.caps())),
            debug: options.debug,
            device,
            kernels,
            stores: Stores::of(&plan.layers),
            plan,
            arena_bytes,
            codebooks,
            ropes,
            n_ctx,
        })
    }
}

/// Bytes of the tables of RoPE and of other numbers.
pub(super) fn ropes_bytes(plan: &Plan) -> u64 {
    let streams = if plan.sections.is_some() { plan.rope_at(plan.ropes.len()) } else { 0 };
    (4 * (plan.numbers_at(plan.numbers.len()) + streams) as u64).max(16)
}

/// What decides on the kernels of packed rows.
pub(super) fn rows_asked(caps: &Caps, options: &Options) -> PackedRowsRequest {
    let activations = options.activations.unwrap_or_else(|| policy::activations(caps));
    PackedRowsRequest { forced: options.debug.many_rows, activations }
}

/// Bytes of the scratch arena of a model, whatever shape a step has. `packed`: activations for cooperative matrices, if there are
/// some.
pub(super) fn arena_bytes(
    plan: &Plan,
    (caps, stages): (&Caps, bool),
    options: &Options,
    max_rows: usize,
    packed: Option<&sizes::Packed>,
) -> u64 {
    let at = Addresses::default();
    let layout = MatrixLayout { direct: true, ordered: true, panels: true };
    let target = Target {
        plan,
        caps,
        at: &at,
        soa: stages,
        fuse: options.debug.fuse,
        chunks: options.debug.chunks.unwrap_or_else(|| policy::scans_by_windows(caps)),
        max_rows,
        n_ctx: 1,
        cache_types: options.cache_types(),
        activations: options.activations.unwrap_or_else(|| policy::activations(caps)),
        requests_at: 0,
        importance: false,
        packing: packed.filter(|_| !caps.matrix_n.is_empty()).map(|sizes| sizes.packing(layout)),
        rows: packed.and_then(|sizes| sizes.rows(caps, rows_asked(caps, options))),
        megakernel: None,
    };
    sizes::arena(&target)
}
