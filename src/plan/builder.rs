//! Builds a plan top to bottom: the methods that architecture files call, line by line.

use super::{AttentionSpec, LayerState, MatPart, Op, Plan, RopeNorm, Rows, TopK, Val, ValueInfo, Weight, WeightInfo};

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

    /// RMS norm of the output rows only: `[n, dim]` → `[w, dim]`.
    pub fn rms_norm_output(&mut self, x: Val, weight: Weight, eps: f32) -> Val {
        let out = self.value("h_out", self.width(x), Rows::Output);
        self.ops.push(Op::RmsNorm { x, weight, eps, out });
        out
    }

    /// Products with several matrices, side by side: `[n, k]` → `[n, m0 + m1 + ...]`.
    pub fn matmul(&mut self, name: &'static str, x: Val, parts: Vec<MatPart>) -> Val {
        let rows = self.values[x.0].rows;
        let out = self.value(name, self.out_features(&parts), rows);
        self.ops.push(Op::MatMul { x, norm: None, parts, add: false, out });
        out
    }

    /// `residual += x · weightᵀ`: `[n, k]` → `[n, m]`, in place.
    pub fn matmul_add(&mut self, x: Val, part: MatPart, residual: Val) -> Val {
        self.ops.push(Op::MatMul { x, norm: None, parts: vec![part], add: true, out: residual });
        residual
    }

    /// `silu(x · gateᵀ) * (x · upᵀ)`: `[n, k]` → `[n, ffn]`.
    pub fn gated(&mut self, x: Val, gate: MatPart, up: MatPart) -> Val {
        let out = self.value("ffn", self.weights[gate.weight.0].rows, Rows::Step);
        self.ops.push(Op::GatedMatMul { x, norm: None, gate, up, out });
        out
    }

    /// The experts of each row by the router's logits `[n, experts]`: `[n, 4 * used]`, see [`Op::Route`].
    pub fn route(&mut self, logits: Val, top_k: TopK, scale: f32, scales: [Option<Weight>; 3]) -> Val {
        let out = self.value("route", 4 * top_k.k, Rows::Step);
        self.ops.push(Op::Route { logits, router: None, top_k, scale, scales, out });
        out
    }

    /// `silu(x · gateᵀ) * (x · upᵀ)` of each expert of a row, side by side: `[n, k]` → `[n, used * ffn]`.
    pub fn gated_experts(&mut self, x: Val, route: Val, top_k: TopK, gate: Weight, up: Weight) -> Val {
        let ffn = self.weights[gate.0].rows / top_k.n_expert;
        let out = self.value("experts", top_k.k * ffn, Rows::Step);
        self.ops.push(Op::GatedExperts { x, norm: None, route, top_k, gate, up, out });
        out
    }

    /// `residual += Σ weight * (x_expert · downᵀ)`: `[n, used * ffn]` → `[n, m]`, in place.
    pub fn experts_add(&mut self, x: Val, route: Val, top_k: TopK, down: Weight, residual: Val) -> Val {
        self.ops.push(Op::ExpertsAdd { x, route, top_k, down, out: residual });
        residual
    }

    /// Rotates q in place, writes rotated k and v to the cache of `spec.layer`; norms per head first if given.
    pub fn rope_kv(&mut self, qkv: Val, spec: AttentionSpec, rope: RopeNorm) {
        self.ops.push(Op::RopeKv { qkv, spec, rope });
    }

    /// Attention of each row over its sequence's cache: q of `qkv` → `[n, heads * v_dim]`.
    pub fn attend(&mut self, qkv: Val, spec: AttentionSpec, scale: f32) -> Val {
        let out = self.value("attn", spec.heads * spec.v_dim, Rows::Step);
        self.ops.push(Op::Attend { qkv, rope: None, spec, scale, out });
        out
    }

    /// Ends the plan: ids from the logits `[w, vocab]`. `layers` says what each layer keeps, `ropes` has the tables that
    /// layers rotate by.
    pub fn finish(
        mut self,
        arch: &str,
        logits: Val,
        layers: Vec<LayerState>,
        ropes: Vec<Vec<f32>>,
        n_ctx_train: usize,
    ) -> Plan {
        self.ops.push(Op::Sample { logits });
        let n_vocab = self.width(logits);
        Plan {
            arch: arch.to_string(),
            ops: self.ops,
            values: self.values,
            weights: self.weights,
            layers,
            ropes,
            n_vocab,
            n_ctx_train,
            logits,
        }
    }
}
