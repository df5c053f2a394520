//! The plan: a model's forward pass as ops in order, with shapes. It is what runs, not a description of it.
//!
//! An architecture file builds one with the methods below, line by line; the CPU reference and the Vulkan engine
//! interpret the same plan. Row counts stay symbolic: a value has one row per row of the step, or one per wanted row.
//! This module knows neither files nor devices.

mod dump;
mod op;
mod place;

pub use op::{Access, Cache, Chosen, ExpertPart, MatPart, Op, Rope, RopeStyle};
pub use place::Placement;

use crate::step::Squares;
use pumex_quant::Format;

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
    /// One per row whose logits are wanted: `w`.
    Wanted,
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
    /// Bytes as stored.
    pub fn len_bytes(&self) -> u64 {
        (self.rows * (self.cols / self.format.block_len) * self.format.block_bytes) as u64
    }
}

/// Shape of the KV cache, equal in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Layers with a cache.
    pub layers: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
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
    /// KV cache.
    pub kv: KvShape,
    /// RoPE: radians per position of each rotated pair, `[rope_dim / 2]`.
    pub inv_freq: Vec<f32>,
    /// Vocabulary size.
    pub n_vocab: usize,
    /// Context the model was trained for.
    pub n_ctx_train: usize,
    /// The logits, `[w, n_vocab]`.
    pub logits: Val,
}

/// The input of a product, whose columns' squares say how much each of them matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The op.
    pub op: usize,
    /// `[n, k]`
    pub x: Val,
    /// Columns.
    pub cols: usize,
    /// The matrices it is multiplied with.
    pub weights: Vec<Weight>,
    /// If the matrices are those of experts: which rows they see.
    pub routed: Option<Routed>,
}

/// How rows reach experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// `[n, 4 * used]`
    pub route: Val,
    /// How many.
    pub chosen: Chosen,
    /// Whether `x` has a row for each expert of a row, side by side, instead of one for all.
    pub apart: bool,
}

impl Input {
    /// Matrices in each weight.
    pub fn matrices(&self) -> usize {
        self.routed.map_or(1, |r| r.chosen.experts)
    }

    /// Floats of its sums `[matrices, cols]`, with a count for each matrix after them if rows are routed.
    pub fn floats(&self) -> usize {
        let counts = if self.routed.is_some() { self.matrices().next_multiple_of(4) } else { 0 };
        self.matrices() * self.cols + counts
    }
}

impl Plan {
    /// What an op reads; of a normed value and of a router's logits also what they were made from, since the op may make
    /// them itself.
    pub fn reads(&self, op: &Op) -> Vec<Access> {
        let mut reads = op.reads();
        for router in self.ops.iter().filter(|_| matches!(op, Op::Route { .. })) {
            match router {
                Op::MatMul { x, out, .. } if reads.contains(&Access::Value(*out)) => reads.push(Access::Value(*x)),
                _ => {}
            }
        }
        for norm in &self.ops {
            if let Op::RmsNorm { x, out, .. } = norm {
                if reads.contains(&Access::Value(*out)) {
                    reads.push(Access::Value(*x));
                }
            }
        }
        reads
    }

    /// Inputs of all products that every row of a step passes, in order; the head is not among them.
    pub fn inputs(&self) -> Vec<Input> {
        let input = |(op, x, weights, routed): (usize, Val, Vec<Weight>, Option<Routed>)| {
            let cols = self.weights[weights[0].0].cols;
            Input { op, x, cols, weights, routed }
        };
        let product = |(i, op): (usize, &Op)| match op {
            Op::MatMul { x, parts, .. } => Some((i, *x, parts.iter().map(|p| p.weight).collect(), None)),
            Op::GatedMatMul { x, gate, up, .. } => Some((i, *x, vec![gate.weight, up.weight], None)),
            Op::GatedExperts { x, route, chosen, gate, up, .. } => {
                Some((i, *x, vec![*gate, *up], Some(Routed { route: *route, chosen: *chosen, apart: false })))
            }
            Op::ExpertsAdd { x, route, chosen, down, .. } => {
                Some((i, *x, vec![*down], Some(Routed { route: *route, chosen: *chosen, apart: true })))
            }
            _ => None,
        };
        let all = self.ops.iter().enumerate().filter_map(product).map(input);
        all.filter(|input| self.values[input.x.0].rows == Rows::Step).collect()
    }

    /// The floats collected for `input`, told apart and named.
    pub fn squares(&self, input: &Input, mut floats: Vec<f32>) -> Squares {
        let mut counts = floats.split_off(input.matrices() * input.cols);
        counts.truncate(input.matrices());
        let names = input.weights.iter().map(|w| self.weights[w.0].name.clone()).collect();
        Squares { names, sums: floats, counts }
    }
}

/// Builds a plan top to bottom.
pub struct Builder {
    ops: Vec<Op>,
    values: Vec<ValueInfo>,
    weights: Vec<WeightInfo>,
}

impl Builder {
    /// A builder over the weights an architecture declared.
    pub fn new(weights: Vec<WeightInfo>) -> Self {
        Builder { ops: Vec::new(), values: Vec::new(), weights }
    }

    fn value(&mut self, name: &'static str, width: usize, rows: Rows) -> Val {
        self.values.push(ValueInfo { name, width, rows });
        Val(self.values.len() - 1)
    }

    fn width(&self, v: Val) -> usize {
        self.values[v.0].width
    }

    fn out_features(&self, parts: &[MatPart]) -> usize {
        parts.iter().map(|p| self.weights[p.weight.0].rows).sum()
    }

    /// Token ids → embedding rows, `[n, dim]`.
    pub fn embed(&mut self, weight: Weight) -> Val {
        let out = self.value("x", self.weights[weight.0].cols, Rows::Step);
        self.ops.push(Op::Embed { weight, out });
        out
    }

    /// RMS norm of every row, times `weight`: `[n, dim]` → `[n, dim]`.
    pub fn rms_norm(&mut self, x: Val, weight: Weight, eps: f32) -> Val {
        let out = self.value("h", self.width(x), Rows::Step);
        self.ops.push(Op::RmsNorm { x, weight, eps, out });
        out
    }

    /// RMS norm of the wanted rows only: `[n, dim]` → `[w, dim]`.
    pub fn rms_norm_wanted(&mut self, x: Val, weight: Weight, eps: f32) -> Val {
        let out = self.value("h_out", self.width(x), Rows::Wanted);
        self.ops.push(Op::RmsNorm { x, weight, eps, out });
        out
    }

    /// Products with several matrices, side by side: `[n, k]` → `[n, m0 + m1 + ...]`.
    pub fn matmul(&mut self, name: &'static str, x: Val, parts: Vec<MatPart>) -> Val {
        let rows = self.values[x.0].rows;
        let out = self.value(name, self.out_features(&parts), rows);
        self.ops.push(Op::MatMul { x, parts, add: false, out });
        out
    }

    /// `residual += x · weightᵀ`: `[n, k]` → `[n, m]`, in place.
    pub fn matmul_add(&mut self, x: Val, part: MatPart, residual: Val) -> Val {
        self.ops.push(Op::MatMul { x, parts: vec![part], add: true, out: residual });
        residual
    }

    /// `silu(x · gateᵀ) * (x · upᵀ)`: `[n, k]` → `[n, ffn]`.
    pub fn gated(&mut self, x: Val, gate: MatPart, up: MatPart) -> Val {
        let out = self.value("ffn", self.weights[gate.weight.0].rows, Rows::Step);
        self.ops.push(Op::GatedMatMul { x, gate, up, out });
        out
    }

    /// The experts of each row by the router's logits `[n, experts]`: `[n, 4 * used]`, see [`Op::Route`].
    pub fn route(&mut self, logits: Val, chosen: Chosen, scale: f32, scales: [Option<Weight>; 3]) -> Val {
        let out = self.value("route", 4 * chosen.used, Rows::Step);
        self.ops.push(Op::Route { logits, chosen, scale, scales, out });
        out
    }

    /// `silu(x · gateᵀ) * (x · upᵀ)` of each expert of a row, side by side: `[n, k]` → `[n, used * ffn]`.
    pub fn gated_experts(&mut self, x: Val, route: Val, chosen: Chosen, gate: Weight, up: Weight) -> Val {
        let ffn = self.weights[gate.0].rows / chosen.experts;
        let out = self.value("experts", chosen.used * ffn, Rows::Step);
        self.ops.push(Op::GatedExperts { x, route, chosen, gate, up, out });
        out
    }

    /// `residual += Σ weight * (x_expert · downᵀ)`: `[n, used * ffn]` → `[n, m]`, in place.
    pub fn experts_add(&mut self, x: Val, route: Val, chosen: Chosen, down: Weight, residual: Val) -> Val {
        self.ops.push(Op::ExpertsAdd { x, route, chosen, down, out: residual });
        residual
    }

    /// Rotates q in place, writes rotated k and v to the cache of `cache.layer`; norms per head first if given.
    pub fn rope_kv(&mut self, qkv: Val, cache: Cache, rope: Rope, q_norm: Option<Weight>, k_norm: Option<Weight>) {
        self.ops.push(Op::RopeKv { qkv, cache, rope, q_norm, k_norm });
    }

    /// Causal attention of each row over its sequence's cache: q of `qkv` → `[n, heads * head_dim]`.
    pub fn attend(&mut self, qkv: Val, cache: Cache, scale: f32) -> Val {
        let out = self.value("attn", cache.heads * cache.head_dim, Rows::Step);
        self.ops.push(Op::Attend { qkv, cache, scale, out });
        out
    }

    /// Ends the plan: ids from the logits.
    pub fn finish(mut self, arch: &str, logits: Val, kv: KvShape, inv_freq: Vec<f32>, n_ctx_train: usize) -> Plan {
        self.ops.push(Op::Sample { logits });
        let n_vocab = self.width(logits);
        Plan {
            arch: arch.to_string(),
            ops: self.ops,
            values: self.values,
            weights: self.weights,
            kv,
            inv_freq,
            n_vocab,
            n_ctx_train,
            logits,
        }
    }
}
