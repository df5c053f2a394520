//! Pieces that architectures share.

use super::config::Config;
use super::weights::Weights;
use crate::plan::{AttentionSpec, Builder, ExpertPart, MatPart, Rope, RopeNorm, RopeStyle, TopK, Val, Weight};

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
        gate: w.linear_ffn(&format!("blk.{blk}.ffn_gate"), c.n_ff, c.n_embd),
        up: w.linear_ffn(&format!("blk.{blk}.ffn_up"), c.n_ff, c.n_embd),
        down: w.linear_ffn(&format!("blk.{blk}.ffn_down"), c.n_embd, c.n_ff),
    }
}

/// Weights of a feed-forward block of experts.
pub struct Experts {
    /// `[experts, dim]`: how much each is wanted
    pub router: MatPart,
    /// `[experts, ffn, dim]`
    pub gate: ExpertPart,
    /// `[experts, ffn, dim]`
    pub up: ExpertPart,
    /// `[experts, dim, ffn]`
    pub down: ExpertPart,
}

/// Declares `blk.N.ffn_gate_inp` and `blk.N.ffn_{gate,up,down}_exps`.
pub fn declare_experts(w: &mut Weights<'_>, c: &Config, blk: usize) -> Experts {
    let (n, ffn, dim) = (c.n_expert, c.n_ff_exp, c.n_embd);
    Experts {
        router: w.linear(&format!("blk.{blk}.ffn_gate_inp"), n, dim),
        gate: w.experts(&format!("blk.{blk}.ffn_gate_exps"), n, ffn, dim),
        up: w.experts(&format!("blk.{blk}.ffn_up_exps"), n, ffn, dim),
        down: w.experts(&format!("blk.{blk}.ffn_down_exps"), n, dim, ffn),
    }
}

/// Attention of normed rows `h` `[n, dim]`, added to the residual `x` `[n, dim]`.
pub fn attention(p: &mut Builder, h: Val, a: &Attention, c: &Config, layer: usize, style: RopeStyle, x: Val) -> Val {
    let spec = AttentionSpec::causal(layer, c.n_head, c.n_head_kv, c.head_dim);
    let rope = Rope { style, dims: c.rope_dims, table: 0, norm_eps: c.eps };
    let qkv = p.matmul("qkv", h, vec![a.q, a.k, a.v]); // [n, (heads + 2 kv_heads) * head_dim]
    p.rope_kv(qkv, spec, RopeNorm { rope, q_norm: a.q_norm, k_norm: a.k_norm });
    let out = p.attend(qkv, spec, 1.0 / (c.head_dim as f32).sqrt()); // [n, heads * head_dim]
    p.matmul_add(out, a.output, x)
}

/// Gated feed-forward of normed rows `h` `[n, dim]`, added to the residual `x` `[n, dim]`.
pub fn gated_ffn(p: &mut Builder, h: Val, f: &Gated, x: Val) -> Val {
    let hidden = p.gated(h, f.gate, f.up); // [n, ffn]
    p.matmul_add(hidden, f.down, x)
}

/// Feed-forward by the experts that each normed row of `h` `[n, dim]` wants most, added to the residual `x` `[n, dim]`.
pub fn expert_ffn(p: &mut Builder, h: Val, e: &Experts, c: &Config, x: Val) -> Val {
    let logits = p.matmul("router", h, vec![e.router]); // [n, experts]
    let top_k = TopK { n_expert: c.n_expert, k: c.n_expert_used };
    let scales = [e.gate.scale, e.up.scale, e.down.scale];
    let route = p.route(logits, top_k, c.expert_scale, scales); // [n, 4 * used]
    let hidden = p.gated_experts(h, route, top_k, e.gate.weight, e.up.weight); // [n, used * ffn]
    p.experts_add(hidden, route, top_k, e.down.weight, x)
}
