//! Builds a plan top to bottom: the methods that architecture files call, line by line.

use super::{
    Act, Arg, AttentionSpec, ByRow, Cols, Dot, Encoder, ExpertsMatMul, Gate, General, Join, LayerState, LowRank, Map,
    MatPart, NormKind, Normalize, Op, Plan, RopeNorm, Rows, TopK, Val, ValueInfo, Weight, WeightInfo,
};

/// Builds a plan top to bottom.
pub struct Builder {
    ops: Vec<Op>,
    values: Vec<ValueInfo>,
    weights: Vec<WeightInfo>,
    encoder: Option<Encoder>,
    layer_ends: Vec<(usize, Val)>,
    by_row: Option<ByRow>,
}

impl Builder {
    /// A builder over the weights an architecture declared.
    pub fn new(weights: Vec<WeightInfo>) -> Self {
        Builder { ops: Vec::new(), values: Vec::new(), weights, encoder: None, layer_ends: Vec::new(), by_row: None }
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
        self.ops.push(Op::Embed { weight, instead: None, out });
        out
    }

    /// Token ids → embedding rows, `[n, dim]`, where the list of pairs `list` puts ids in place of others.
    pub fn embed_instead(&mut self, weight: Weight, list: usize) -> Val {
        let out = self.value("x", self.weights[weight.0].cols, Rows::Step);
        self.ops.push(Op::Embed { weight, instead: Some(list), out });
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
        self.ops.push(Op::MatMul { x, norm: None, parts: parts.clone(), add: false, out });
        self.add_beside(x, &parts, out);
        out
    }

    /// `residual += x · weightᵀ`: `[n, k]` → `[n, m]`, in place.
    pub fn matmul_add(&mut self, x: Val, part: MatPart, residual: Val) -> Val {
        self.add_beside_residual(x, &part, residual);
        self.ops.push(Op::MatMul { x, norm: None, parts: vec![part], add: true, out: residual });
        residual
    }

    /// `x · gateᵀ` and `x · upᵀ`, the one gating the other: `[n, k]` → `[n, ffn]`.
    pub fn matmul_gated(&mut self, x: Val, gate: MatPart, up: MatPart, by: Gate) -> Val {
        if self.has_beside(&[gate, up]) {
            let len = self.rows_of(gate.weight);
            let both = self.matmul("gate_up", x, vec![gate, up]);
            if by.limit.is_some() || by.plus != 0.0 {
                let (act, up) = (
                    by.limit.map_or(Act::Same, |most| Act::Clamp(-most, most)),
                    Cols { val: both, at: len, stride: len },
                );
                self.map_into(up, (1, len), (act, Arg::Cols(up), 1.0), (Join::Add, Arg::Number(by.plus)));
            }
            return self.glu(both, by.act, len);
        }
        let out = self.value("ffn", self.weights[gate.weight.0].rows, Rows::Step);
        self.ops.push(Op::GatedMatMul { x, norm: None, gate, up, by, out });
        out
    }

    /// The experts of each row by the router's logits `[n, experts]`: `[n, 4 * used]`, see [`Op::Route`].
    pub fn route(&mut self, logits: Val, top_k: TopK, scale: f32, scales: [Option<Weight>; 3]) -> Val {
        let out = self.value("route", 4 * top_k.k, Rows::Step);
        self.ops.push(Op::Route { logits, router: None, top_k, scale, scales, out });
        out
    }

    /// Gated products with the matrices `[gate, up]` and `biases` of each expert of a row, side by side: `[n, k]` → `[n, used * ffn]`.
    pub fn matmul_gated_experts(
        &mut self,
        x: Val,
        (route, top_k): (Val, TopK),
        [gate, up]: [Weight; 2],
        biases: [Option<Weight>; 2],
        by: Gate,
    ) -> Val {
        let ffn = self.weights[gate.0].rows / top_k.n_expert;
        let out = self.value("experts", top_k.k * ffn, Rows::Step);
        self.ops.push(Op::GatedExperts { x, norm: None, route, top_k, gate, up, biases, by, out });
        out
    }

    /// `residual += Σ weight * (x_expert · downᵀ + bias)`: `[n, used * ffn]` → `[n, m]`, in place.
    pub fn experts_add(
        &mut self,
        x: Val,
        (route, top_k): (Val, TopK),
        down: Weight,
        bias: Option<Weight>,
        residual: Val,
    ) -> Val {
        self.ops.push(Op::ExpertsAdd { x, route, top_k, down, bias, out: residual });
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

    /// Ends the encoder, which gives `rows` `[n, dim]`. What follows is the decoder, whose texts begin with the id `start`.
    pub fn end_encoder(&mut self, rows: Val, start: u32) {
        self.encoder = Some(Encoder { ops: self.ops.len(), rows, start });
    }

    /// Ends a layer, which gives the residual stream `x` `[n, dim]`.
    pub fn layer_ends(&mut self, x: Val) {
        self.layer_ends.push((self.ops.len(), x));
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
            long_ropes: None,
            dense_positions: None,
            numbers: Vec::new(),
            n_vocab,
            embeds: false,
            vectors: 0,
            sections: None,
            sight: Default::default(),
            n_ctx_train,
            logits,
            encoder: self.encoder,
            layer_ends: self.layer_ends,
            adapters: 0,
        }
    }
}

/// Ops beside those of the usual transformer.
impl Builder {
    /// A value of `width` columns for every row, to be written by parts.
    pub fn parts(&mut self, name: &'static str, width: usize) -> Val {
        self.value(name, width, Rows::Step)
    }

    /// A value of `width` columns for every output row, to be written by parts.
    pub fn outputs(&mut self, name: &'static str, width: usize) -> Val {
        self.value(name, width, Rows::Output)
    }

    /// Gives a value that nothing has written yet so many columns.
    pub fn widen(&mut self, v: Val, width: usize) {
        self.values[v.0].width = width;
    }

    /// Columns of a value.
    pub fn width_of(&self, v: Val) -> usize {
        self.width(v)
    }

    /// Rows of a matrix.
    pub fn rows_of(&self, weight: Weight) -> usize {
        self.weights.get(weight.0).map_or(0, |w| w.rows)
    }

    /// An op that writes columns of a value that is there.
    pub fn general(&mut self, op: General) {
        // A file may have nothing to rotate where others of its family do.
        let nothing = matches!(&op, General::Rotate(r) if r.groups == 0 || r.len.max(r.rope.dims) == 0);
        if !nothing {
            self.ops.push(Op::General(op));
        }
    }

    /// All columns of a value, as one group.
    pub fn all(&self, v: Val) -> Cols {
        Cols { val: v, at: 0, stride: self.width(v) }
    }

    /// `out = scale * act(a) + b` or `* b`, over `groups` of `len` columns.
    pub fn map_into(
        &mut self,
        out: Cols,
        (groups, len): (usize, usize),
        (act, a, scale): (Act, Arg, f32),
        (join, b): (Join, Arg),
    ) {
        self.general(General::Map(Map { act, a, scale, join, b, groups, len, out }));
    }

    /// `scale * act(x)` of all columns, in a new value.
    pub fn act(&mut self, x: Val, act: Act, scale: f32) -> Val {
        let width = self.width(x);
        let out = self.parts("act", width);
        let (a, b) = (Arg::Cols(self.all(x)), Arg::Number(0.0));
        self.map_into(self.all(out), (1, width), (act, a, scale), (Join::Add, b));
        out
    }

    /// `x *= factor`, in place.
    pub fn scale(&mut self, x: Val, factor: f32) -> Val {
        if factor != 1.0 {
            let all = self.all(x);
            self.map_into(all, (1, all.stride), (Act::Same, Arg::Cols(all), factor), (Join::Add, Arg::Number(0.0)));
        }
        x
    }

    /// `scale * a + b`, in place of `b`.
    pub fn add(&mut self, a: Val, scale: f32, b: Val) -> Val {
        let all = self.all(b);
        let a = Arg::Cols(self.all(a));
        self.map_into(all, (1, all.stride), (Act::Same, a, scale), (Join::Add, Arg::Cols(all)));
        b
    }

    /// `act(scale * Σ a * b)` of each of `groups` of `len` columns, in a new value of a column per group.
    pub fn dot(&mut self, (groups, len): (usize, usize), a: Arg, b: Arg, (act, scale): (Act, f32)) -> Val {
        let val = self.parts("dot", groups);
        self.general(General::Dot(Dot { act, scale, a, b, groups, len, out: Cols { val, at: 0, stride: 1 } }));
        val
    }

    /// A value of zeros.
    pub fn zeros(&mut self, width: usize) -> Val {
        let out = self.parts("sum", width);
        let all = self.all(out);
        self.map_into(all, (1, width), (Act::Same, Arg::Number(0.0), 1.0), (Join::Add, Arg::Number(0.0)));
        out
    }

    /// A copy that stays when `x` changes.
    pub fn copy(&mut self, x: Val) -> Val {
        let out = self.parts("copy", self.width(x));
        self.copy_into(self.all(x), self.all(out), 1, self.width(x));
        out
    }

    /// A copy of columns, `groups` of `len`.
    pub fn copy_into(&mut self, from: Cols, to: Cols, groups: usize, len: usize) {
        self.map_into(to, (groups, len), (Act::Same, Arg::Cols(from), 1.0), (Join::Add, Arg::Number(0.0)));
    }

    /// `act(gate) * up` for a row of both side by side, `[n, 2 * len]` → `[n, len]`.
    pub fn glu(&mut self, both: Val, act: Act, len: usize) -> Val {
        let out = self.parts("glu", len);
        let half = |at| Arg::Cols(Cols { val: both, at, stride: len });
        self.map_into(self.all(out), (1, len), (act, half(0), 1.0), (Join::Mul, half(len)));
        out
    }

    /// `out = x · weightᵀ` where the inputs are few.
    pub fn narrow_matmul(&mut self, x: Val, weight: Weight, columns: usize, out: Val) {
        let m = self.weights.get(weight.0).map_or(0, |w| w.rows);
        let (x, out) = (Cols { val: x, at: 0, stride: columns }, Cols { val: out, at: 0, stride: m });
        self.general(General::HeadMatMul(super::HeadMatMul { x, weight, heads: 1, out }));
    }

    /// A norm of whole rows, in a new value of the step's rows.
    pub fn normalize(&mut self, kind: NormKind, x: Val, weight: Option<Weight>, bias: Option<Weight>, eps: f32) -> Val {
        let out = self.parts("h", self.width(x));
        self.normalize_rows(kind, x, (weight, bias), eps, out)
    }

    /// A norm of the output rows.
    pub fn normalize_output(
        &mut self,
        kind: NormKind,
        x: Val,
        weight: Option<Weight>,
        bias: Option<Weight>,
        eps: f32,
    ) -> Val {
        let out = self.value("h_out", self.width(x), Rows::Output);
        self.normalize_rows(kind, x, (weight, bias), eps, out)
    }

    fn normalize_rows(
        &mut self,
        kind: NormKind,
        x: Val,
        (weight, bias): (Option<Weight>, Option<Weight>),
        eps: f32,
        out: Val,
    ) -> Val {
        let (x, out) = (self.all(x), self.all(out));
        self.general(General::Normalize(Normalize {
            kind,
            x,
            groups: 1,
            len: x.stride,
            weight,
            bias,
            gate: None,
            eps,
            out,
        }));
        out.val
    }
}

/// Products of low rank whose matrices each row chooses.
impl Builder {
    /// Products that are built from now on have these beside them.
    pub fn choose_by_row(&mut self, by_row: ByRow) {
        self.by_row = Some(by_row);
    }

    /// Whether one of the matrices has a pair beside it.
    fn has_beside(&self, parts: &[MatPart]) -> bool {
        self.by_row.iter().any(|by_row| parts.iter().any(|part| self.adapter_pairs(by_row, part).next().is_some()))
    }

    fn adapter_pairs<'a>(&'a self, by_row: &'a ByRow, part: &MatPart) -> impl Iterator<Item = &'a LowRank> {
        let name = self.weights.get(part.weight.0).map(|info| &info.name);
        by_row.pairs.iter().filter(move |pair| Some(&pair.of) == name)
    }

    /// Adds to `out` `[n, Σ m_i]` what pairs beside its matrices give.
    fn add_beside(&mut self, x: Val, parts: &[MatPart], out: Val) {
        let Some(by_row) = self.by_row.take() else { return };
        let mut first = 0;
        for part in parts {
            for pair in self.adapter_pairs(&by_row, part).cloned().collect::<Vec<_>>() {
                let low = self.matmul_by_row(&by_row, x, pair.a);
                let high = self.matmul_by_row(&by_row, low, pair.b);
                let len = self.width_of(high);
                let cols = Cols { val: out, at: first + pair.at, stride: len };
                let from = Arg::Cols(self.all(high));
                self.map_into(cols, (1, len), (Act::Same, from, part.scale), (Join::Add, Arg::Cols(cols)));
            }
            first += self.rows_of(part.weight);
        }
        self.by_row = Some(by_row);
    }

    /// Adds to the residual stream what pairs beside a matrix give, times the route's weight.
    fn add_beside_residual(&mut self, x: Val, part: &MatPart, residual: Val) {
        let Some(by_row) = self.by_row.take() else { return };
        for pair in self.adapter_pairs(&by_row, part).cloned().collect::<Vec<_>>() {
            let low = self.matmul_by_row(&by_row, x, pair.a);
            self.experts_add(low, (by_row.route, by_row.top_k), pair.b, None, residual);
        }
        self.by_row = Some(by_row);
    }

    /// `x · weightᵀ` by the matrix that each row chooses.
    fn matmul_by_row(&mut self, by_row: &ByRow, x: Val, weight: Weight) -> Val {
        let ByRow { route, top_k, .. } = *by_row;
        let out = self.parts("chosen", self.rows_of(weight) / top_k.n_expert);
        self.general(General::ExpertsMatMul(ExpertsMatMul { x, route, top_k, weight, own_input: false, out }));
        out
    }
}
