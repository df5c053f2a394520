//! Ops that hand a state from row to row of a sequence: convolutions over time, shifts, state-space models, delta rules.
//!
//! A state is part of what its layer keeps, from float `at` on; before position 0 it is zero.

use super::{Cols, Val, Weight};

/// A causal convolution of each column over the last rows: `out = Σ_j weight[c, j] * x[t - k + 1 + j, c] + bias[c]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Columns one after the other.
    pub x: Cols,
    /// How many.
    pub channels: usize,
    /// `[channels, k]`
    pub weight: Weight,
    /// `[channels]`
    pub bias: Option<Weight>,
    /// Whether SiLU follows.
    pub silu: bool,
    /// The layer that keeps the last `k - 1` rows, `[k - 1, channels]`.
    pub layer: usize,
    /// Where in its state.
    pub at: usize,
    /// Columns one after the other.
    pub out: Cols,
    /// A norm of the first columns out, if the op does it.
    pub norm: Option<ConvNorm>,
}

/// A norm by the length, without weights, of a convolution's first columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvNorm {
    /// Whether `eps` is the least length instead of being added to the square of it.
    pub least: bool,
    /// Groups side by side.
    pub groups: usize,
    /// Columns of each.
    pub len: usize,
    /// Keeps the divisor from zero.
    pub eps: f32,
}

/// Each row becomes the one before it in its sequence; the first becomes zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// `[n, dim]`
    pub x: Val,
    /// The layer that keeps the last row, `[dim]`.
    pub layer: usize,
    /// Where in its state.
    pub at: usize,
    /// `[n, dim]`
    pub out: Val,
}

/// How a state `S [v, k]` of a head changes with a row, and what it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Mamba: `S = S * exp(rate * factor) + rate * v ⊗ k`, `out = S · q`. `factor` is `[heads]` or `[heads, k]`.
    Mamba,
    /// Gated delta rule: `S *= exp(decay)`, `S += rate * (v - S · k) ⊗ k`, `out = S · q`. `decay` is a number per head or `[heads, k]`.
    Delta,
    /// RWKV 6: `out = (S + factor * v ⊗ k) · q`, then `S = S * decay + v ⊗ k`. `factor` is `[heads, k]`.
    Wkv6,
    /// Gated linear attention: `S = S * decay + v ⊗ k`, `out = S · q`.
    Gla,
    /// RWKV 7: `S = S * decay + v ⊗ k + (S · a) ⊗ b`, `out = S · q`.
    Wkv7,
}

impl ScanKind {
    /// The name that plans print.
    pub fn name(self) -> &'static str {
        match self {
            ScanKind::Mamba => "mamba",
            ScanKind::Delta => "delta",
            ScanKind::Wkv6 => "wkv6",
            ScanKind::Gla => "gla",
            ScanKind::Wkv7 => "wkv7",
        }
    }
}

/// A recurrence over the rows of each sequence, head by head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Which.
    pub kind: ScanKind,
    /// Heads.
    pub heads: usize,
    /// Columns of `v` and of the result per head.
    pub v_dim: usize,
    /// Columns of `q` and `k` per group.
    pub k_dim: usize,
    /// Groups of `q` and `k`; divides `heads`.
    pub groups: usize,
    /// Whether head `h` takes group `h % groups`, instead of `h / (heads / groups)`.
    pub tiled: bool,
    /// What the state is read by.
    pub q: Cols,
    /// What it is written at.
    pub k: Cols,
    /// What is written.
    pub v: Cols,
    /// What it fades by: a column per head, or `k_dim` per head.
    pub decay: Option<Cols>,
    /// Whether `decay` has `k_dim` columns per head.
    pub decay_per_column: bool,
    /// How much is written: a column per head.
    pub rate: Option<Cols>,
    /// The columns `a` of [`ScanKind::Wkv7`].
    pub a: Option<Cols>,
    /// The columns `b` of [`ScanKind::Wkv7`].
    pub b: Option<Cols>,
    /// Factors by head, where the kind has them: see [`ScanKind`].
    pub factor: Option<Weight>,
    /// `[heads]`, where `rate` and `decay` are as the products left them. Of Mamba: `rate = softplus(rate + soft)`. Of the delta rule:
    /// `rate = sigmoid(rate)` and `decay = softplus(decay + soft) * factor`.
    pub soft: Option<Weight>,
    /// `[heads]`: `out += skip * v`, of Mamba.
    pub skip: Option<Weight>,
    /// The factor of the result.
    pub scale: f32,
    /// The layer that keeps `S`, `[heads, v_dim, k_dim]`.
    pub layer: usize,
    /// Where in its state.
    pub at: usize,
    /// `v_dim` columns per head.
    pub out: Cols,
}

impl Scan {
    /// Columns it reads.
    pub fn inputs(&self) -> impl Iterator<Item = Cols> {
        [Some(self.q), Some(self.k), Some(self.v), self.decay, self.rate, self.a, self.b].into_iter().flatten()
    }

    /// The group of a head.
    pub fn group(&self, head: usize) -> usize {
        if self.tiled {
            head % self.groups
        } else {
            head / (self.heads / self.groups)
        }
    }
}
