//! Everything that lowering needs to know, as plain data: a device's facts, choices of the user, and addresses.

use super::megakernel::Megakernel;
use super::CacheType;
use crate::policy::{ActivationQuant, MatrixLayout, PackedRowsRequest};
use pumex_plan::Plan;
use pumex_vk::Caps;

/// The shape of a step: what its dispatches depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Which of the parameter slots it reads.
    pub slot: usize,
    /// Rows it has room for.
    pub rows: usize,
    /// Output rows it has room for; 0 leaves the head out.
    pub outputs: usize,
    /// Output rows whose logits are copied to the host's buffer: the first ones.
    pub logits: usize,
    /// Samples ids by requests instead of taking the largest logits.
    pub sampled: bool,
    /// The choice of ids is a recording of its own, which is submitted when the host has said which ids are allowed.
    pub later: bool,
    /// Most query heads that a workgroup of attention takes.
    pub heads: usize,
    /// A decode batch: no two rows are of one sequence.
    pub decode_batch: bool,
    /// Room for so many first rows that are each alone of their sequence, in a step of many rows of which others share one.
    pub singles: usize,
    /// Its rows are those of sources, which take the encoder's ops.
    pub source: bool,
    /// Some of its rows are vectors.
    pub vectors: bool,
    /// Some of these see each other.
    pub groups: bool,
    /// Lets the megakernel do the ops of one row.
    pub megakernel: bool,
    /// Parts in which attention is a stage of it; 0 where attention is a dispatch.
    pub parts: u32,
    /// Takes the time.
    pub timed: bool,
    /// Takes it after every op, too.
    pub stamps: bool,
}

/// Where a recording's buffers lie. In a dry run, any numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addresses {
    /// Scratch arena, where values are placed.
    pub arena: u64,
    /// Weights in the plan's order.
    pub weights: Vec<u64>,
    /// What each layer keeps.
    pub states: Vec<StateAt>,
    /// Tables of all formats.
    pub codebooks: u64,
    /// Tables of RoPE, one after the other.
    pub ropes: u64,
    /// Vectors of a step that has some.
    pub vectors: u64,
    /// Scales of each row's adapters, `[rows, adapters]`, where sequences have such.
    pub adapter_scales: u64,
    /// Sampled id per sequence.
    pub sampled: u64,
    /// StepParams of the slot.
    pub params: u64,
    /// Ids for the host.
    pub ids: u64,
    /// Split-reduction workspace: what workgroups leave, and counters of their arrivals.
    pub partials: u64,
    /// Counters of workgroups' arrivals.
    pub arrivals: u64,
    /// Where a megakernel whose workgroups do not run at once says so.
    pub fault: u64,
    /// Sums of squares of the products' inputs, one after the other.
    pub importance: u64,
    /// Words that only this recording needs: see [`super::Lowered::words`].
    pub words: u64,
    /// ActivationQuant for cooperative matrices.
    pub packed: PackedAt,
    /// The megakernel's buffers: where a thread that gave up says so, and what workgroups send each other.
    pub gave_up: u64,
    /// Messages that the megakernel's workgroups send each other.
    pub messages: u64,
}

/// Where the state of a layer lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateAt {
    /// K of all blocks, or the recurrent states.
    pub k: u64,
    /// V of all blocks.
    pub v: u64,
    /// Words from a row's block table to the one that names these blocks.
    pub table_at: u32,
}

/// Where packed activations lie.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedAt {
    /// Rows as halves.
    pub codes: u64,
    /// A factor of each row.
    pub factors: u64,
    /// For each number of columns that a matrix may have, which thread holds which element.
    pub maps: Vec<(u32, u64)>,
    /// Factors of rows that the op before has packed: of attention, then of gated units.
    pub epilogue_factors: u64,
    /// Sums of squares of each sixteen outputs, of rows that come packed for a norm.
    pub squares: u64,
    /// And what they are packed over, twice.
    pub powers: u64,
    /// A matrix as halves.
    pub decoded: u64,
    /// Rows of experts: the tiles' list, packed rows, their factors, products that are to be added up.
    pub moe: [u64; 4],
}

/// What a device's threads hold of cooperative matrices, and how much room packed rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// How threads hold them.
    pub layout: MatrixLayout,
    /// Most inputs of a packed row.
    pub k: usize,
    /// The plan has experts, and there is room for their rows.
    pub moe: bool,
}

/// Rows that `pack_rows` packs: there is room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPacking {
    /// What decides on their kernels.
    pub asked: PackedRowsRequest,
    /// The plan has experts, and there is room for their rows.
    pub moe: bool,
}

/// What lowering is for.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The plan as the model file gives it.
    pub plan: &'a Plan,
    /// The device.
    pub caps: &'a Caps,
    /// Addresses.
    pub at: &'a Addresses,
    /// Weights lie as a structure of arrays, not as blocks.
    pub soa: bool,
    /// Merges ops.
    pub fuse: bool,
    /// Scans many rows of a sequence by windows, instead of one by one.
    pub chunks: bool,
    /// Most rows of a step.
    pub max_rows: usize,
    /// Positions a sequence may have.
    pub n_ctx: usize,
    /// Types of K and V.
    pub cache_types: (CacheType, CacheType),
    /// Quantization of activations in integer dot products.
    pub activations: ActivationQuant,
    /// Word of StepParams where sampling requests start.
    pub requests_at: usize,
    /// Sums squares of the products' inputs.
    pub importance: bool,
    /// Cooperative matrices, if these are used.
    pub packing: Option<Packing>,
    /// Rows packed for products without such matrices, if there are some.
    pub rows: Option<RowPacking>,
    /// The megakernel, if there is one.
    pub megakernel: Option<&'a Megakernel>,
}
