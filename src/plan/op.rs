//! The ops a plan is made of. Every variant says shapes, what it reads and what it writes.

use super::{Val, Weight};

/// Which elements RoPE rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Neighbours: elements `2i` and `2i + 1`.
    Norm,
    /// Halves: elements `i` and `i + dims / 2`.
    Neox,
}

/// Rotary position embedding of the first `dims` elements of a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Pairing.
    pub style: RopeStyle,
    /// Rotated elements per head, even.
    pub dims: usize,
    /// Epsilon of the per-head norm, used if there is one.
    pub norm_eps: f32,
}

/// Attention's shape and the layer whose cache it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Index of the layer's cache.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl Cache {
    /// Width of a row of q, k and v side by side.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
}

/// How many experts a layer has and a row uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// All.
    pub experts: usize,
    /// Of a row.
    pub used: usize,
}

/// Matrices of experts `[experts, m, k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertPart {
    /// The matrices, one below the other.
    pub weight: Weight,
    /// `[experts]`, what each one's product is multiplied with.
    pub scale: Option<Weight>,
}

/// A matrix `[m, k]`, what its product is multiplied with, and its optional bias `[m]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatPart {
    /// The matrix.
    pub weight: Weight,
    /// Added to the product.
    pub bias: Option<Weight>,
    /// Of the product, before the bias.
    pub scale: f32,
}

/// One op. `n` is the step's rows, `w` its wanted rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// ids `[n]` → `out [n, dim]`.
    Embed {
        /// `[vocab, dim]`
        weight: Weight,
        /// `[n, dim]`
        out: Val,
    },
    /// `out = x / sqrt(mean(x²) + eps) * weight`; takes the wanted rows only if `out` has `w` rows.
    RmsNorm {
        /// `[n, dim]`
        x: Val,
        /// `[dim]`
        weight: Weight,
        /// Added to the mean square.
        eps: f32,
        /// `[n, dim]` or `[w, dim]`
        out: Val,
    },
    /// `out (+)= x · weightᵀ + bias`, parts side by side.
    MatMul {
        /// `[n, k]`
        x: Val,
        /// `[m_i, k]` each
        parts: Vec<MatPart>,
        /// Adds to `out` instead of replacing it.
        add: bool,
        /// `[n, Σ m_i]`
        out: Val,
    },
    /// `out = silu(x · gateᵀ) * (x · upᵀ)`.
    GatedMatMul {
        /// `[n, k]`
        x: Val,
        /// `[ffn, k]`
        gate: MatPart,
        /// `[ffn, k]`
        up: MatPart,
        /// `[n, ffn]`
        out: Val,
    },
    /// The experts of each row: the `used` largest of `softmax(logits)`, scaled to sum up to `scale`.
    Route {
        /// `[n, experts]`
        logits: Val,
        /// How many.
        chosen: Chosen,
        /// What the weights sum up to.
        scale: f32,
        /// `[experts]` each, of the products with gate, up and down.
        scales: [Option<Weight>; 3],
        /// `[n, 4 * used]`: ids (as bits), weights times down's scales, scales of gate, scales of up.
        out: Val,
    },
    /// Of each expert of a row, side by side: `out = silu(x · gateᵀ) * (x · upᵀ)`.
    GatedExperts {
        /// `[n, k]`
        x: Val,
        /// `[n, 4 * used]`
        route: Val,
        /// How many.
        chosen: Chosen,
        /// `[experts, ffn, k]`
        gate: Weight,
        /// `[experts, ffn, k]`
        up: Weight,
        /// `[n, used * ffn]`
        out: Val,
    },
    /// `out += Σ weight * (x_expert · downᵀ)` over the experts of a row.
    ExpertsAdd {
        /// `[n, used * ffn]`
        x: Val,
        /// `[n, 4 * used]`
        route: Val,
        /// How many.
        chosen: Chosen,
        /// `[experts, m, ffn]`
        down: Weight,
        /// `[n, m]`
        out: Val,
    },
    /// Per-head norm (optional) and RoPE of q and k; q in place, k and v into the cache at the row's position.
    RopeKv {
        /// `[n, (heads + 2 kv_heads) * head_dim]`: q, k, v
        qkv: Val,
        /// Shape and layer.
        cache: Cache,
        /// Rotation.
        rope: Rope,
        /// `[head_dim]`
        q_norm: Option<Weight>,
        /// `[head_dim]`
        k_norm: Option<Weight>,
    },
    /// `out = softmax(q · Kᵀ * scale) · V` over positions `0..=pos` of the row's sequence.
    Attend {
        /// `[n, (heads + 2 kv_heads) * head_dim]`, q is read
        qkv: Val,
        /// Shape and layer.
        cache: Cache,
        /// Of the scores.
        scale: f32,
        /// `[n, heads * head_dim]`
        out: Val,
    },
    /// Id of every wanted row, kept for the next step and for the host: the largest logit's, or as the step's draws say.
    Sample {
        /// `[w, vocab]`
        logits: Val,
    },
}

/// Something an op reads or writes that a barrier may have to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A value's bytes.
    Value(Val),
    /// A layer's cache.
    Kv(usize),
    /// The sampled ids.
    Ids,
}

impl Op {
    /// What the op reads, weights aside: those never change.
    pub fn reads(&self) -> Vec<Access> {
        match self {
            Op::Embed { .. } => vec![Access::Ids],
            Op::RmsNorm { x, .. } | Op::GatedMatMul { x, .. } => vec![Access::Value(*x)],
            Op::MatMul { x, add, out, .. } if *add => vec![Access::Value(*x), Access::Value(*out)],
            Op::MatMul { x, .. } => vec![Access::Value(*x)],
            Op::Route { logits, .. } => vec![Access::Value(*logits)],
            Op::GatedExperts { x, route, .. } => vec![Access::Value(*x), Access::Value(*route)],
            Op::ExpertsAdd { x, route, out, .. } => {
                vec![Access::Value(*x), Access::Value(*route), Access::Value(*out)]
            }
            Op::RopeKv { qkv, .. } => vec![Access::Value(*qkv)],
            Op::Attend { qkv, cache, .. } => vec![Access::Value(*qkv), Access::Kv(cache.layer)],
            Op::Sample { logits } => vec![Access::Value(*logits), Access::Ids],
        }
    }

    /// What the op writes.
    pub fn writes(&self) -> Vec<Access> {
        match self {
            Op::Embed { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::MatMul { out, .. }
            | Op::GatedMatMul { out, .. }
            | Op::Route { out, .. }
            | Op::GatedExperts { out, .. }
            | Op::ExpertsAdd { out, .. }
            | Op::Attend { out, .. } => vec![Access::Value(*out)],
            Op::RopeKv { qkv, cache, .. } => vec![Access::Value(*qkv), Access::Kv(cache.layer)],
            Op::Sample { .. } => vec![Access::Ids],
        }
    }
}
