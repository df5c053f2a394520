//! The plan: a model's forward pass as ops in order, with shapes. It is what runs, not a description of it.
//!
//! An architecture file builds one with the methods below, line by line; the CPU reference and the Vulkan engine
//! interpret the same plan. Row counts stay symbolic: a value has one row per row of the step, or one per output row.
//! This module knows neither files nor devices.

mod adapt;
mod attention;
mod builder;
mod by_row;
mod compressed;
mod conv2d;
mod dump;
mod encoder;
mod gate;
mod general;
mod inputs;
mod op;
mod op_parts;
pub mod pass;
mod place;
mod recurrent;
mod routing;
mod sparse_attention;
mod split;
mod state;
mod streams;
mod unused_indexers;
mod vectors;

pub use adapt::{Site, SiteKind, SitePair};
pub use attention::{AttentionSpec, Extent, Mask, BIAS_REACH};
pub use builder::Builder;
pub use by_row::{instead, AdapterScales, ById, ByRow, LowRank, TakeVectors};
pub use compressed::{AttendBlocks, ChooseBlocks, Entries, Pool};
pub use conv2d::Conv2d;
pub use encoder::Encoder;
pub use gate::Gate;
pub use general::{Act, Arg, Dot, General, HeadMatMul, Join, Map, NormGate, NormKind, Normalize, Rotate, Temperature};
pub use inputs::{Input, Routed};
pub use op::Op;
pub use op_parts::{Access, Cols, ExpertPart, MatPart, Norm, Rope, RopeNorm, RopeStyle, Router, TopK};
pub use place::Placement;
pub use recurrent::{Conv, ConvNorm, Scan, ScanKind, Shift};
pub use routing::{Choose, ExpertsBias, ExpertsMatMul, Gating, Groups, LEAST_SUM};
pub use sparse_attention::{ChoosePositions, Chosen};
pub use split::FROM_HOST;
pub use state::{KvSpec, LayerState, RecurrentSpec, MAX_HEAD_DIM};
pub use streams::{Mix, Softmax, StreamGates};
pub use vectors::{GroupSight, Sections};

use pumex_quant::Format;

/// Positions per block of a paged K/V cache.
pub const KV_BLOCK: usize = pumex_shaders::step::KV_BLOCK as usize;

/// Name of the part of a state that grows with the context.
pub const ENTRIES: &str = "entries";

/// A value of the plan: index into [`Plan::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Val(pub usize);

/// A weight of the plan: index into [`Plan::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weight(pub usize);

/// How many rows a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One per row of the step: `n`.
    Step,
    /// One per output row, which has logits: `w`.
    Output,
}

/// Shape of a value: `[rows, width]` f32.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// For dumps.
    pub name: &'static str,
    /// Columns.
    pub width: usize,
    /// Row kind.
    pub rows: Rows,
}

/// A tensor of the file in the role the architecture gave it.
#[derive(Clone, Debug)]
pub struct WeightInfo {
    /// GGUF name.
    pub name: String,
    /// Index into the file's tensors.
    pub tensor: usize,
    /// Output features; 1 for a vector.
    pub rows: usize,
    /// Input features (contiguous).
    pub cols: usize,
    /// Block format.
    pub format: &'static Format,
}

impl WeightInfo {
    /// Weights in it.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }

    /// Bytes as halves.
    pub fn f16_bytes(&self) -> u64 {
        2 * self.elements() as u64
    }

    /// Bytes as stored.
    pub fn len_bytes(&self) -> u64 {
        (self.rows * (self.cols / self.format.block_len) * self.format.block_bytes) as u64
    }
}

/// Ops in order, with everything they name.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Architecture's name.
    pub arch: String,
    /// The ops.
    pub ops: Vec<Op>,
    /// Shapes of all values.
    pub values: Vec<ValueInfo>,
    /// All weights.
    pub weights: Vec<WeightInfo>,
    /// What each layer keeps between steps.
    pub layers: Vec<LayerState>,
    /// Tables of RoPE: radians per position of each rotated pair, `[rope_dims / 2]` each, and of attention's biases. Layers name
    /// theirs.
    pub ropes: Vec<Vec<f32>>,
    /// The rotation's frequency factors in a context of more positions than so many (longrope).
    pub long_ropes: Option<(usize, Vec<Vec<f32>>)>,
    /// Tables of other numbers, which [`Arg::Table`] reads.
    pub numbers: Vec<Vec<f32>>,
    /// Vocabulary size.
    pub n_vocab: usize,
    /// Whether what comes out are embeddings in place of logits, `n_vocab` columns of them.
    pub embeds: bool,
    /// Adapters whose scales each sequence has of its own; 0 where there are none, or scales are in their matrices.
    pub adapters: usize,
    /// Numbers of vectors that rows may be in place of ids; 0 where they may be none.
    pub vectors: usize,
    /// By which of a row's positions pairs rotate, where there are several.
    pub sections: Option<Sections>,
    /// What rows that see each other see of each other.
    pub sight: GroupSight,
    /// Context the model was trained for.
    pub n_ctx_train: usize,
    /// Positions that a sequence may hold, where the model would choose among more which ones a row attends to.
    pub dense_positions: Option<usize>,
    /// The logits, `[w, n_vocab]`.
    pub logits: Val,
    /// Which ops are an encoder's, if it has one.
    pub encoder: Option<Encoder>,
    /// For each layer in the plan as a family built it, how many ops there are up to its end, and the residual stream `[n, dim]`; none
    /// where a layer ends in several values. [`Plan::add_adapters`] takes them out.
    pub layer_ends: Vec<(usize, Val)>,
}

impl Plan {
    /// Every attention of the plan, in order.
    pub fn attention(&self) -> impl Iterator<Item = &AttentionSpec> {
        self.ops.iter().filter_map(|op| if let Op::Attend { spec, .. } = op { Some(spec) } else { None })
    }

    /// Whether rows see some that come later, so that all of a text must stand in one step. Beside an encoder those of an answer
    /// do not; its source has a step of its own in any case.
    pub fn looks_ahead(&self) -> bool {
        self.encoder.is_none() && self.attention().any(|spec| spec.mask.looks_ahead())
    }

    /// Whether layers keep all positions of a sequence, so that it can be cut anywhere.
    pub fn keeps_all(&self) -> bool {
        let keeps = |layer: &LayerState| layer.kv().map_or(*layer == LayerState::Nothing, |kv| kv.window.is_none());
        self.layers.iter().all(keeps)
    }

    /// Keys and values of each layer that keeps some, with the layer's index.
    pub fn kv_layers(&self) -> impl Iterator<Item = (usize, &KvSpec)> {
        self.layers.iter().enumerate().filter_map(|(i, layer)| Some((i, layer.kv()?)))
    }

    /// The plan for contexts of up to `n_ctx` positions: longrope has other frequencies in long ones.
    #[must_use]
    pub fn for_context(self, n_ctx: usize) -> Plan {
        let mut plan = self.with_room(n_ctx);
        if let Some((_, long)) = plan.long_ropes.take_if(|(above, _)| n_ctx > *above) {
            plan.ropes = long;
        }
        plan
    }

    /// The plan whose layers have room for entries of that many positions. Where an indexer could choose no fewer than there are,
    /// attention goes over all of them.
    #[must_use]
    pub fn with_room(mut self, n_ctx: usize) -> Plan {
        self.leave_out_idle(n_ctx);
        for op in &mut self.ops {
            if let Op::Attend { spec, .. } = op {
                spec.chosen = spec.chosen.filter(|chosen| !chosen.is_idle(n_ctx));
            }
            if let Op::General(General::ChoosePositions(c)) = op {
                c.slots = n_ctx.div_ceil(c.chosen.every);
            }
            let (layer, e) = match op {
                Op::General(General::AttendBlocks(AttendBlocks { layer, entries: Some(e), .. })) => (*layer, e),
                Op::General(General::ChooseBlocks(ChooseBlocks { layer, entries, out, .. })) => {
                    self.values[out.val.0].width = n_ctx.div_ceil(entries.every);
                    (*layer, entries)
                }
                _ => continue,
            };
            e.slots = n_ctx.div_ceil(e.every);
            if let Some(LayerState::Recurrent(RecurrentSpec { parts })) = self.layers.get_mut(layer) {
                let of = parts.iter_mut().filter(|(name, _)| *name == ENTRIES);
                of.for_each(|(_, shape)| *shape = vec![e.slots, e.stride]);
            }
        }
        self
    }

    /// Where each table of RoPE starts when they lie one after the other, in floats.
    pub fn rope_at(&self, table: usize) -> usize {
        self.ropes[..table].iter().map(Vec::len).sum()
    }

    /// Where a table of other numbers starts behind those of RoPE, in floats.
    pub fn numbers_at(&self, table: usize) -> usize {
        self.ropes.iter().chain(&self.numbers[..table]).map(Vec::len).sum()
    }

    /// The ops that read `v`, with their index.
    pub fn readers(&self, v: Val) -> impl Iterator<Item = (usize, &Op)> {
        self.ops.iter().enumerate().filter(move |(_, op)| op.has_read(Access::Value(v)))
    }
}
