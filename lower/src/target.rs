//! Everything that lowering needs to know, as plain data: a device's facts, choices of the user, and addresses.

use super::megakernel::Megakernel;
use super::CacheType;
use crate::policy;
use crate::policy::{ActivationQuant, FlashTile, GroupAttention, ManyRowsAsked, StagedAttention};
use pumex_plan::{AttentionSpec, Plan};
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
    /// Of more rows than few, of which some are of one sequence: room for so many first ones that are each alone of theirs.
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
    /// Sampled id per sequence.
    pub sampled: u64,
    /// StepParams of the slot.
    pub params: u64,
    /// Ids for the host.
    pub ids: u64,
    /// Split-reduction workspace: what workgroups leave, and counters of their arrivals.
    pub partials: u64,
    /// See `partials`.
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
    /// See `gave_up`.
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
    /// Of rows that come packed for a norm: the sums of squares of each sixteen outputs.
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
    /// Threads hold matrices as `gemm_few` and `attn_mat` expect.
    pub direct: bool,
    /// Threads hold sums as `attn_flash` expects, too.
    pub ordered: bool,
    /// Threads hold matrices as `gemm_panels` expects.
    pub panels: bool,
    /// Most inputs of a packed row.
    pub k: usize,
    /// The plan has experts, and there is room for their rows.
    pub moe: bool,
}

/// Rows that `pack_rows` packs: there is room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPacking {
    /// What decides on their kernels.
    pub asked: ManyRowsAsked,
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

impl Target<'_> {
    /// Whether attention of few rows goes through cooperative matrices.
    pub fn attends_by_matrices(&self, spec: &AttentionSpec) -> bool {
        let halves = self.cache_types.0.becomes_halves() && self.cache_types.1.becomes_halves();
        let fits = halves && policy::attn_mat_fits(spec) && self.caps.disabled_reason("attn_mat").is_none();
        fits && self.packing.is_some_and(|p| p.direct)
    }

    /// Whether that of many rows does, by matrices that threads fill themselves.
    pub fn attends_many_by_matrices(&self, spec: &AttentionSpec) -> bool {
        let on = self.caps.disabled_reason("attn_flash").is_none();
        on && self.attends_by_matrices(spec) && self.packing.is_some_and(|p| p.ordered)
    }

    /// The tile of a prompt's attention by matrices that threads fill themselves.
    pub fn prompt_attention(&self, spec: &AttentionSpec) -> Option<FlashTile> {
        let halves = self.cache_types.0.becomes_halves() && self.cache_types.1.becomes_halves();
        let held = self.packing.is_some_and(|p| p.panels && p.direct && p.ordered);
        let on = self.caps.disabled_reason("attn_prompt").is_none() && held && halves;
        let fits = policy::attn_prompt_bytes(spec) <= self.caps.max_shared_bytes as usize;
        policy::attn_prompt_tile(spec).filter(|_| on && fits)
    }

    /// The tile of many rows' attention by matrices from shared memory, where matrices are used and take such heads.
    pub fn staged_attention(&self, spec: &AttentionSpec) -> Option<StagedAttention> {
        let halves = self.cache_types.0.becomes_halves() && self.cache_types.1.becomes_halves();
        let on = self.caps.disabled_reason("attn_staged").is_none();
        policy::staged_attention(self.caps, spec).filter(|_| on && halves && self.packing.is_some())
    }

    /// The tile of many rows' attention by matrices that workgroups hold, likewise.
    pub fn matrix2_attention(&self, spec: &AttentionSpec) -> Option<GroupAttention> {
        let halves = self.cache_types.0.becomes_halves() && self.cache_types.1.becomes_halves();
        let on = self.caps.disabled_reason("attn_matrix2").is_none();
        policy::matrix2_attention(self.caps, spec).filter(|_| on && halves && self.packing.is_some())
    }

    /// Whether all attention of few rows goes through cooperative matrices.
    pub fn all_attend_by_matrices(&self) -> bool {
        self.plan.attention().all(|spec| self.attends_by_matrices(spec))
    }
}
