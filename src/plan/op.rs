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

/// A matrix `[m, k]` and its optional bias `[m]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatPart {
    /// The matrix.
    pub weight: Weight,
    /// Added to the product.
    pub bias: Option<Weight>,
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
    /// Greedy id of every wanted row, kept for the next step and for the host.
    Argmax {
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
            Op::RopeKv { qkv, .. } => vec![Access::Value(*qkv)],
            Op::Attend { qkv, cache, .. } => vec![Access::Value(*qkv), Access::Kv(cache.layer)],
            Op::Argmax { logits } => vec![Access::Value(*logits)],
        }
    }

    /// What the op writes.
    pub fn writes(&self) -> Vec<Access> {
        match self {
            Op::Embed { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::MatMul { out, .. }
            | Op::GatedMatMul { out, .. }
            | Op::Attend { out, .. } => vec![Access::Value(*out)],
            Op::RopeKv { qkv, cache, .. } => vec![Access::Value(*qkv), Access::Kv(cache.layer)],
            Op::Argmax { .. } => vec![Access::Ids],
        }
    }
}
