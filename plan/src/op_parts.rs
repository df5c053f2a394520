//! What ops are made of: rotations, norms, matrices with what belongs to them, columns of values.

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
    /// Which of the plan's tables of frequencies: index into [`super::Plan::ropes`].
    pub table: usize,
    /// Epsilon of the per-head norm, used if there is one.
    pub norm_eps: f32,
}

/// An RMS norm that an op does to its input: `x / sqrt(mean(x²) + eps) * weight`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// `[dim]`
    pub weight: Weight,
    /// Added to the mean square.
    pub eps: f32,
}

/// Per-head norms and RoPE that attention does to the q and k it gets, with the new entry of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeNorm {
    /// Rotation.
    pub rope: Rope,
    /// `[head_dim]`
    pub q_norm: Option<Weight>,
    /// `[head_dim]`
    pub k_norm: Option<Weight>,
}

/// A router's product that the op choosing the experts does itself: logits = `x · partᵀ`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// `[n, k]`
    pub x: Val,
    /// The norm of `x`, if there is one.
    pub norm: Option<Norm>,
    /// `[experts, k]`
    pub part: MatPart,
}

/// How many experts a layer has, and how many a row uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// Experts of the layer.
    pub n_expert: usize,
    /// Experts of a row.
    pub k: usize,
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
    /// The factor of the product, before the bias.
    pub scale: f32,
}

/// Columns of a value in groups: group `g` starts at column `at + g * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cols {
    /// The value.
    pub val: Val,
    /// Column where the first group starts.
    pub at: usize,
    /// Columns from one group to the next.
    pub stride: usize,
}

/// Something an op reads or writes that a barrier may have to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A value's bytes.
    Value(Val),
    /// What a layer keeps between steps.
    State(usize),
    /// The sampled ids.
    Ids,
}
