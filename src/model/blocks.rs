//! Pieces that architectures share.

use super::config::Config;
use super::weights::Weights;
use crate::plan::{Builder, Cache, MatPart, Rope, RopeStyle, Val, Weight};

/// Weights of one attention block.
pub struct Attention {
    /// `[heads * head_dim, dim]`
    pub q: MatPart,
    /// `[kv_heads * head_dim, dim]`
    pub k: MatPart,
    /// `[kv_heads * head_dim, dim]`
    pub v: MatPart,
    /// `[dim, heads * head_dim]`
    pub output: MatPart,
    /// `[head_dim]`, per-head norm of q
    pub q_norm: Option<Weight>,
    /// `[head_dim]`, per-head norm of k
    pub k_norm: Option<Weight>,
}

/// Weights of one gated feed-forward block.
pub struct Gated {
    /// `[ffn, dim]`
    pub gate: MatPart,
    /// `[ffn, dim]`
    pub up: MatPart,
    /// `[dim, ffn]`
    pub down: MatPart,
}

/// Declares `blk.N.attn_*`, with per-head norms if `qk_norm`.
pub fn declare_attention(w: &mut Weights<'_>, c: &Config, blk: usize, qk_norm: bool) -> Attention {
    let (q_dim, kv_dim) = (c.n_head * c.head_dim, c.n_head_kv * c.head_dim);
    Attention {
        q: w.linear(&format!("blk.{blk}.attn_q"), q_dim, c.n_embd),
        k: w.linear(&format!("blk.{blk}.attn_k"), kv_dim, c.n_embd),
        v: w.linear(&format!("blk.{blk}.attn_v"), kv_dim, c.n_embd),
        output: w.linear(&format!("blk.{blk}.attn_output"), c.n_embd, q_dim),
        q_norm: qk_norm.then(|| w.vector(&format!("blk.{blk}.attn_q_norm.weight"), c.head_dim)),
        k_norm: qk_norm.then(|| w.vector(&format!("blk.{blk}.attn_k_norm.weight"), c.head_dim)),
    }
}

/// Declares `blk.N.ffn_{gate,up,down}`.
pub fn declare_gated(w: &mut Weights<'_>, c: &Config, blk: usize) -> Gated {
    Gated {
        gate: w.linear(&format!("blk.{blk}.ffn_gate"), c.n_ff, c.n_embd),
        up: w.linear(&format!("blk.{blk}.ffn_up"), c.n_ff, c.n_embd),
        down: w.linear(&format!("blk.{blk}.ffn_down"), c.n_embd, c.n_ff),
    }
}

/// Attention of normed rows `h` `[n, dim]`, added to the residual `x` `[n, dim]`.
pub fn attention(p: &mut Builder, h: Val, a: &Attention, c: &Config, layer: usize, style: RopeStyle, x: Val) -> Val {
    let cache = Cache { layer, heads: c.n_head, kv_heads: c.n_head_kv, head_dim: c.head_dim };
    let qkv = p.matmul("qkv", h, vec![a.q, a.k, a.v]); // [n, (heads + 2 kv_heads) * head_dim]
    p.rope_kv(qkv, cache, Rope { style, dims: c.rope_dims, norm_eps: c.eps }, a.q_norm, a.k_norm);
    let out = p.attend(qkv, cache, 1.0 / (c.head_dim as f32).sqrt()); // [n, heads * head_dim]
    p.matmul_add(out, a.output, x)
}

/// Gated feed-forward of normed rows `h` `[n, dim]`, added to the residual `x` `[n, dim]`.
pub fn gated_ffn(p: &mut Builder, h: Val, f: &Gated, x: Val) -> Val {
    let hidden = p.gated(h, f.gate, f.up); // [n, ffn]
    p.matmul_add(hidden, f.down, x)
}
