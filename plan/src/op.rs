//! The ops a plan is made of. Every variant says shapes, what it reads and what it writes.
//!
//! Ops that passes have merged carry what they took over: the norm of their input, RoPE, a router's product. What they
//! read and write follows from these fields alone.

use super::{Access, AttentionSpec, Gate, General, MatPart, Norm, RopeNorm, Router, TopK, Val, Weight};

/// One op. `n` is the step's rows, `w` its output rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// ids `[n]` → `out [n, dim]`.
    Embed {
        /// `[vocab, dim]`
        weight: Weight,
        /// The one of [`super::Plan::numbers`] with pairs of ids, of which the second's row is the first's.
        instead: Option<usize>,
        /// `[n, dim]`
        out: Val,
    },
    /// `out = x / sqrt(mean(x²) + eps) * weight`; takes the output rows only if `out` has `w` rows.
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
        /// The norm of `x`, applied first, if there is one.
        norm: Option<Norm>,
        /// `[m_i, k]` each
        parts: Vec<MatPart>,
        /// Adds to `out` instead of replacing it.
        add: bool,
        /// `[n, Σ m_i]`
        out: Val,
    },
    /// `out` = what [`Gate`] makes of `x · gateᵀ` and `x · upᵀ`.
    GatedMatMul {
        /// `[n, k]`
        x: Val,
        /// The norm of `x`, applied first, if there is one.
        norm: Option<Norm>,
        /// `[ffn, k]`
        gate: MatPart,
        /// `[ffn, k]`
        up: MatPart,
        /// How one gates the other.
        by: Gate,
        /// `[n, ffn]`
        out: Val,
    },
    /// The experts of each row: the `used` largest of `softmax(logits)`, scaled to sum up to `scale`.
    Route {
        /// `[n, experts]`: read, or written if the op does the router's product.
        logits: Val,
        /// The product that gives the logits, if the op does it.
        router: Option<Router>,
        /// How many.
        top_k: TopK,
        /// What the weights sum up to.
        scale: f32,
        /// `[experts]` each, of the products with gate, up and down.
        scales: [Option<Weight>; 3],
        /// `[n, 4 * used]`: ids (as bits), weights times down's scales, scales of gate, scales of up.
        out: Val,
    },
    /// For each expert of a row, side by side: what [`Gate`] makes of `x · gateᵀ` and `x · upᵀ`.
    GatedExperts {
        /// `[n, k]`
        x: Val,
        /// The norm of `x`, applied first, if there is one.
        norm: Option<Norm>,
        /// `[n, 4 * used]`
        route: Val,
        /// How many.
        top_k: TopK,
        /// `[experts, ffn, k]`
        gate: Weight,
        /// `[experts, ffn, k]`
        up: Weight,
        /// `[experts, ffn]` of gate and of up, added to the products.
        biases: [Option<Weight>; 2],
        /// How one gates the other.
        by: Gate,
        /// `[n, used * ffn]`
        out: Val,
    },
    /// `out += Σ weight * (x_expert · downᵀ + bias)` over the experts of a row.
    ExpertsAdd {
        /// `[n, used * ffn]`
        x: Val,
        /// `[n, 4 * used]`
        route: Val,
        /// How many.
        top_k: TopK,
        /// `[experts, m, ffn]`
        down: Weight,
        /// `[experts, m]`
        bias: Option<Weight>,
        /// `[n, m]`
        out: Val,
    },
    /// Per-head norm (optional) and RoPE of q and k; q in place, k and v into the cache at the row's position.
    RopeKv {
        /// `[n, heads * head_dim | kv_heads * head_dim | kv_heads * v_dim]`: q, k, v
        qkv: Val,
        /// Heads, and the layer that keeps k and v.
        spec: AttentionSpec,
        /// Rotation and norms.
        rope: RopeNorm,
    },
    /// `out = softmax(q · Kᵀ * scale) · V` over the positions of the row's sequence that the mask leaves.
    Attend {
        /// `[n, heads * head_dim | kv_heads * head_dim | kv_heads * v_dim]`, of which q is read; all of it with `rope`.
        qkv: Val,
        /// What [`Op::RopeKv`] would have done, if the op does it; q stays as it is then.
        rope: Option<RopeNorm>,
        /// Heads, the layer whose cache is read, and the rules of the scores.
        spec: AttentionSpec,
        /// The factor of the scores.
        scale: f32,
        /// `[n, heads * v_dim]`
        out: Val,
    },
    /// One of the ops beside those of the usual transformer.
    General(General),
    /// Id of every output row, kept for the next step and for the host: the largest logit's, or as the step's draws say.
    Sample {
        /// `[w, vocab]`
        logits: Val,
    },
}

impl Op {
    /// What the op reads, weights aside: those never change.
    pub fn reads(&self) -> Vec<Access> {
        match self {
            Op::Embed { .. } => vec![Access::Ids],
            Op::RmsNorm { x, .. } | Op::GatedMatMul { x, .. } => vec![Access::Value(*x)],
            Op::MatMul { x, add, out, .. } if *add => vec![Access::Value(*x), Access::Value(*out)],
            Op::MatMul { x, .. } => vec![Access::Value(*x)],
            Op::Route { router: Some(router), .. } => vec![Access::Value(router.x)],
            Op::Route { logits, .. } => vec![Access::Value(*logits)],
            Op::GatedExperts { x, route, .. } => vec![Access::Value(*x), Access::Value(*route)],
            Op::ExpertsAdd { x, route, out, .. } => {
                vec![Access::Value(*x), Access::Value(*route), Access::Value(*out)]
            }
            Op::RopeKv { qkv, .. } => vec![Access::Value(*qkv)],
            Op::Attend { qkv, spec, .. } => {
                let list = spec.chosen.map(|chosen| Access::Value(chosen.list));
                [Some(Access::Value(*qkv)), Some(Access::State(spec.layer)), list].into_iter().flatten().collect()
            }
            Op::General(g) => g.reads(),
            Op::Sample { logits } => vec![Access::Value(*logits), Access::Ids],
        }
    }

    /// What the op writes.
    pub fn writes(&self) -> Vec<Access> {
        match self {
            Op::Route { router: Some(_), logits, out, .. } => vec![Access::Value(*logits), Access::Value(*out)],
            Op::Embed { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::MatMul { out, .. }
            | Op::GatedMatMul { out, .. }
            | Op::Route { out, .. }
            | Op::GatedExperts { out, .. }
            | Op::ExpertsAdd { out, .. } => vec![Access::Value(*out)],
            Op::Attend { rope: Some(_), spec, out, .. } => vec![Access::State(spec.layer), Access::Value(*out)],
            Op::Attend { out, .. } => vec![Access::Value(*out)],
            Op::RopeKv { qkv, spec, .. } => vec![Access::Value(*qkv), Access::State(spec.layer)],
            Op::General(g) => g.writes(),
            Op::Sample { .. } => vec![Access::Ids],
        }
    }

    /// Whether it reads `access`.
    pub fn has_read(&self, access: Access) -> bool {
        self.reads().contains(&access)
    }

    /// Whether it writes `access`.
    pub fn has_write(&self, access: Access) -> bool {
        self.writes().contains(&access)
    }
}
