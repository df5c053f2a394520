//! One function per kind of op, as in the reference: what it reads, the kernel, what it writes.

use super::state::RowSpan;
use super::Fast;
use crate::cpu::bookkeeping::routes;
use crate::cpu::general::{apply_gate, Env, WeightFloats};
use crate::cpu::ops as plain;
use pumex_cpu::attention::{Queries, RowRun, ScoreRules};
use pumex_cpu::{rows as kernels, Gating, ProductInput, RoutedExpert, ScaledMatrix};
use pumex_gguf::Gguf;
use pumex_plan::{
    instead, Act, Arg, AttentionSpec, ExpertsMatMul, Gate, General, HeadMatMul, Join, Map, MatPart, Op, Plan, RopeNorm,
    RopeStyle, Rows, TopK, Val, Weight,
};
use pumex_step::Row;
use std::borrow::Cow;

/// Matrices that one loop multiplies with.
const FEW: usize = 4;
/// Sequences of a step that need no list of their own in memory.
const FEW_SPANS: usize = 32;

impl Fast<'_> {
    /// Runs all ops for `rows`.
    pub(super) fn run(&mut self, rows: &[Row]) {
        self.wanted.clear();
        self.wanted.extend((0..rows.len()).filter(|&i| rows[i].has_output()));
        self.state.start(&self.plan, self.session.blocks(), rows, self.books.positions());
        self.acts_of = None;
        let plan = self.plan.clone();
        self.clock.start();
        let ops = plan.ops_of(rows.iter().any(|row| row.token.is_source()));
        for (index, op) in ops.clone().zip(&plan.ops[ops]) {
            self.books.note_importance(&self.plan, &self.values, index);
            self.op(op, rows);
            self.clock.op();
        }
        self.clock.end();
    }

    fn op(&mut self, op: &Op, rows: &[Row]) {
        match op {
            Op::Embed { weight, instead, out } => self.embed(*weight, *instead, *out, rows),
            Op::RmsNorm { x, weight, eps, out } => self.rms_norm(*x, *weight, *eps, *out),
            Op::MatMul { x, parts, add, out, .. } => self.matmul(*x, parts, *add, *out),
            Op::GatedMatMul { x, gate, up, by, out, .. } => self.matmul_gated(*x, (gate, up, *by), *out),
            Op::Route { logits, top_k, scale, scales, out, .. } => self.route(*logits, *top_k, *scale, scales, *out),
            Op::GatedExperts { x, route, top_k, gate, up, biases, by, out, .. } => {
                self.matmul_gated_experts(*x, (*route, *top_k), [(*gate, biases[0]), (*up, biases[1])], *by, *out);
            }
            Op::ExpertsAdd { x, route, top_k, down, bias, out } => {
                self.experts_add(*x, (*route, *top_k), (*down, *bias), *out);
            }
            Op::RopeKv { qkv, spec, rope } => self.rope_kv(*qkv, spec, rope),
            Op::Attend { qkv, spec, scale, out, .. } => self.attend(*qkv, spec, *scale, *out, rows),
            Op::General(General::Scan(s)) if super::scan::takes(s) => self.scan(s, rows),
            Op::General(g) => self.general(g, rows),
            Op::Sample { logits } => {
                let (logits, n_vocab) = (&self.values[logits.0], self.plan.n_vocab);
                self.books.sample(logits, n_vocab, rows, &self.wanted, kernels::argmax);
            }
        }
    }

    pub(super) fn width(&self, v: Val) -> usize {
        self.plan.values[v.0].width
    }

    /// Rows of a value.
    fn rows_of(&self, v: Val) -> usize {
        self.values[v.0].len() / self.width(v)
    }

    /// A value's floats to write, `rows` of them; put back with [`Fast::put`].
    pub(super) fn room(&mut self, v: Val, rows: usize) -> Vec<f32> {
        let mut out = std::mem::take(&mut self.values[v.0]);
        out.resize(rows * self.width(v), 0.0);
        out
    }

    pub(super) fn put(&mut self, v: Val, out: Vec<f32>) {
        self.values[v.0] = out;
        if self.acts_of == Some(v.0) {
            self.acts_of = None;
        }
    }

    /// Makes codes of a value in rows of `cols`, if a matrix takes them and they are not there yet.
    fn prepare<'m>(&mut self, x: Val, cols: usize, takes: impl Iterator<Item = &'m Weight>) {
        let mut takes = takes;
        let wanted = takes.any(|w| self.weights.matrix(*w).takes_codes());
        if wanted && self.acts_of != Some(x.0) {
            self.acts.set(&self.cpu.pool, self.cpu.isa, &self.values[x.0], cols);
            self.acts_of = Some(x.0);
        }
    }

    fn input(&self, x: Val) -> ProductInput<'_> {
        ProductInput { floats: &self.values[x.0], acts: &self.acts }
    }

    fn embed(&mut self, weight: Weight, list: Option<usize>, out: Val, rows: &[Row]) {
        let mut result = self.room(out, rows.len());
        let info = &self.plan.weights[weight.0];
        if info.is_from_host() {
            for (row, out) in rows.iter().zip(result.chunks_exact_mut(info.cols)) {
                out.copy_from_slice(&self.from_host[self.books.id(row) * info.cols..][..info.cols]);
            }
            return self.put(out, result);
        }
        let data = self.gguf.data(&self.gguf.tensors()[info.tensor]);
        let len = info.cols / info.format.block_len * info.format.block_bytes;
        let held = (data.len() / len).max(1);
        let (books, pairs) = (&self.books, list.map_or(&[][..], |list| &self.plan.numbers[list]));
        self.cpu.rows(&mut result, info.cols, &|i, out| {
            info.format.decode_row(&data[instead(pairs, books.id(&rows[i])) % held * len..][..len], out);
        });
        self.put(out, result);
    }

    fn rms_norm(&mut self, x: Val, weight: Weight, eps: f32, out: Val) {
        let (dim, step) = (self.width(x), self.plan.values[out.0].rows == Rows::Step);
        let count = if step { self.rows_of(x) } else { self.wanted.len() };
        let mut result = self.room(out, count);
        let (x, weight, wanted, isa) = (&self.values[x.0], self.weights.vector(weight), &self.wanted, self.cpu.isa);
        self.cpu.rows(&mut result, dim, &|i, out| {
            let row = if step { i } else { wanted[i] };
            kernels::rms_norm(isa, &x[row * dim..][..dim], weight, eps, out);
        });
        self.put(out, result);
    }

    fn matmul(&mut self, x: Val, parts: &[MatPart], add: bool, out: Val) {
        let n = self.rows_of(x);
        self.prepare(x, self.width(x), parts.iter().map(|p| &p.weight));
        let mut result = self.room(out, n);
        // Few enough to need no memory of their own; more of them take several loops.
        let (mut rest, mut at, width) = (parts, 0, self.width(out));
        while let Some(last) = rest.len().min(FEW).checked_sub(1) {
            let some: [ScaledMatrix<'_>; FEW] = std::array::from_fn(|i| self.weights.part(&rest[i.min(last)]));
            at += self.cpu.multiply(&some[..=last], &self.input(x), n, add, (at, width), &mut result);
            rest = &rest[last + 1..];
        }
        self.put(out, result);
    }

    fn matmul_gated(&mut self, x: Val, (gate, up, by): (&MatPart, &MatPart, Gate), out: Val) {
        let n = self.rows_of(x);
        self.prepare(x, self.width(x), [gate, up].into_iter().map(|p| &p.weight));
        let mut result = self.room(out, n);
        let parts = (&self.weights.part(gate), &self.weights.part(up));
        match by {
            Gate::SILU => self.cpu.matmul_gated(parts, Gating::Silu, &self.input(x), n, &mut result),
            by => {
                self.cpu.matmul_gated(parts, Gating::By(&|g, u| apply_gate(by, g, u)), &self.input(x), n, &mut result)
            }
        }
        self.put(out, result);
    }

    fn route(&mut self, logits: Val, top_k: TopK, scale: f32, scales: &[Option<Weight>; 3], out: Val) {
        let mut result = self.room(out, self.rows_of(logits));
        let scales = scales.map(|s| s.map(|w| self.weights.vector(w)));
        let logits = &self.values[logits.0];
        self.cpu.rows(&mut result, 4 * top_k.k, &|i, out| {
            let row = &logits[i * top_k.n_expert..][..top_k.n_expert];
            plain::route(row, top_k.k, scale, &scales, out);
        });
        self.put(out, result);
    }

    /// Which rows each expert has, by what the route says.
    fn sort_choices(&mut self, route: Val, top_k: TopK) {
        let choice = |r: plain::Route| RoutedExpert {
            expert: r.expert as u32,
            weight: r.weight,
            gate_scale: r.gate_scale,
            up_scale: r.up_scale,
        };
        self.choices.used = top_k.k;
        self.choices.of_rows.clear();
        self.choices.of_rows.extend(routes(&self.values[route.0], top_k.k).map(choice));
        self.choices.sort(top_k.n_expert);
    }

    fn matmul_gated_experts(
        &mut self,
        x: Val,
        (route, top_k): (Val, TopK),
        both: [(Weight, Option<Weight>); 2],
        by: Gate,
        out: Val,
    ) {
        let n = self.rows_of(x);
        self.sort_choices(route, top_k);
        self.prepare(x, self.width(x), both.iter().map(|(w, _)| w));
        let mut result = self.room(out, n);
        let both = both.map(|(w, bias)| self.weights.experts(w, bias));
        let (x, choices) = (self.input(x), &self.choices);
        match by {
            Gate::SILU => self.cpu.matmul_gated_experts(&both, Gating::Silu, &x, choices, &mut result),
            by => {
                self.cpu.matmul_gated_experts(&both, Gating::By(&|g, u| apply_gate(by, g, u)), &x, choices, &mut result)
            }
        }
        self.put(out, result);
    }

    fn experts_add(&mut self, x: Val, (route, top_k): (Val, TopK), (down, bias): (Weight, Option<Weight>), out: Val) {
        self.sort_choices(route, top_k);
        let cols = self.weights.matrix(down).cols();
        self.prepare(x, cols, [down].iter());
        let mut result = self.room(out, self.rows_of(x));
        self.cpu.experts_add(&self.weights.experts(down, bias), &self.input(x), &self.choices, &mut result);
        self.put(out, result);
    }

    /// Columns of a value as rows of their own, `[rows * groups, len]`, and a matrix for each group.
    fn head_matmul(&mut self, h: &HeadMatMul) {
        let (n, width, cols) = (self.rows_of(h.x.val), self.width(h.x.val), self.weights.matrix(h.weight).cols());
        self.groups.clear();
        for row in self.values[h.x.val.0].chunks_exact(width) {
            let group = |g: usize| &row[h.x.at + g * h.x.stride..][..cols];
            (0..h.heads).for_each(|g| self.groups.extend_from_slice(group(g)));
        }
        if self.weights.matrix(h.weight).takes_codes() {
            self.acts.set(&self.cpu.pool, self.cpu.isa, &self.groups, cols);
            self.acts_of = None;
        }
        let mut result = self.room(h.out.val, n);
        let x = ProductInput { floats: &self.groups, acts: &self.acts };
        let at = (h.out.at, h.out.stride, self.width(h.out.val));
        self.cpu.heads(self.weights.matrix(h.weight), &x, n, at, &mut result);
        self.put(h.out.val, result);
    }

    fn experts_matmul(&mut self, e: &ExpertsMatMul) {
        self.sort_choices(e.route, e.top_k);
        let cols = self.weights.matrix(e.weight).cols();
        self.prepare(e.x, cols, [e.weight].iter());
        let mut result = self.room(e.out, self.rows_of(e.route));
        let matrix = self.weights.matrix(e.weight);
        self.cpu.experts(matrix, &self.input(e.x), &self.choices, e.own_input, &mut result);
        self.put(e.out, result);
    }

    fn general(&mut self, op: &General, rows: &[Row]) {
        match op {
            General::HeadMatMul(h) => return self.head_matmul(h),
            General::ExpertsMatMul(e) => return self.experts_matmul(e),
            General::Map(m) if self.is_gate(m) => return self.gate(m),
            General::ChoosePositions(c) => return self.choose_positions(c, rows),
            _ => {}
        }
        let Self { plan, states, values, wanted, weights, cpu, gguf, spare, books, .. } = self;
        let floats = WeightLookup { gguf, plan, weights };
        let each = |out: &mut [f32], width: usize, f: &(dyn Fn(usize, &mut [f32]) + Sync)| cpu.rows(out, width, f);
        Env { plan, rows, wanted, values, states, floats: &floats, books, each: &each, spare }.run(op);
        if self.acts_of == Some(op.output().0) {
            self.acts_of = None;
        }
    }

    /// Whether a map is `silu(a) * b`, as gates that stand alone are.
    fn is_gate(&self, m: &Map) -> bool {
        let (Arg::Cols(a), Arg::Cols(b)) = (m.a, m.b) else { return false };
        let whole = m.groups == 1 && m.len == self.width(m.out.val) && m.scale == 1.0;
        whole && (m.act, m.join) == (Act::Silu, Join::Mul) && ![a.val, b.val].contains(&m.out.val)
    }

    fn gate(&mut self, m: &Map) {
        let (Arg::Cols(a), Arg::Cols(b)) = (m.a, m.b) else { return };
        let mut result = self.room(m.out.val, self.rows_of(a.val));
        // A single row is for all threads, too.
        let part = [16, 8, 4, 2].into_iter().find(|n| m.len.is_multiple_of(*n)).map_or(m.len, |n| m.len / n);
        let (isa, len, values) = (self.cpu.isa, m.len, &self.values);
        let [a, b] = [a, b].map(|c| (&values[c.val.0][c.at..], self.width(c.val)));
        self.cpu.rows(&mut result, part, &|i, out| {
            let (row, at) = (i * part / len, i * part % len);
            let [a, b] = [a, b].map(|(x, width)| &x[row * width + at..][..part]);
            kernels::silu_times(isa, a, b, out);
        });
        self.put(m.out.val, result);
    }

    /// Norms and rotates q and k in place, and keeps k and v.
    fn rope_kv(&mut self, qkv: Val, spec: &AttentionSpec, r: &RopeNorm) {
        let rows = self.rows_of(qkv);
        let mut values = self.room(qkv, rows);
        let norms = [r.q_norm, r.k_norm].map(|w| w.map(|w| self.weights.vector(w)));
        let (hd, k_at, v_at, width) = (spec.head_dim, spec.heads * spec.head_dim, spec.v_at(), spec.qkv_width());
        let (isa, half) = (self.cpu.isa, r.rope.dims / 2);
        // Of what is not rotated there are no angles.
        let pairs = if half > 0 { self.plan.ropes[r.rope.table].len() } else { 0 };
        let angles = self.state.angles.get(r.rope.table).map_or(&[][..], Vec::as_slice);
        self.cpu.rows(&mut values, width, &|i, qkv| {
            let angles = &angles[i * pairs..][..pairs.min(half)];
            let mut normed = [0.0f32; pumex_plan::MAX_HEAD_DIM];
            for (h, head) in qkv.chunks_exact_mut(hd).take(spec.heads + spec.kv_heads).enumerate() {
                if let (Some(norm), Some(normed)) = (norms[usize::from(h >= spec.heads)], normed.get_mut(..hd)) {
                    kernels::rms_norm(isa, head, norm, r.rope.norm_eps, normed);
                    head.copy_from_slice(normed);
                }
                rotate(head, r.rope.style, half, angles);
            }
        });
        if let Some(cache) = &mut self.state.caches[spec.layer] {
            let row = |i: usize| {
                let row = &values[i * width..][..width];
                (&row[k_at..v_at], &row[v_at..])
            };
            cache.write(&self.cpu, &self.state.places, &row);
        }
        self.put(qkv, values);
    }

    fn attend(&mut self, qkv: Val, spec: &AttentionSpec, scale: f32, out: Val, rows: &[Row]) {
        if let Some(chosen) = spec.chosen.filter(|chosen| rows.iter().any(|row| !chosen.sees_all(row.pos as usize))) {
            return self.attend_chosen(qkv, (spec, chosen), scale, out, rows);
        }
        self.state.look(spec, self.plan.sight, self.session.blocks(), rows);
        let mut result = self.room(out, rows.len());
        let blocks = self.session.blocks();
        let run = |span: &RowSpan| {
            let table = blocks.table(0, span.seq);
            RowRun { row: span.row, rows: span.rows, blocks: &table.blocks, first_block: table.first }
        };
        let spans = &self.state.spans;
        let mut few = [RowRun { row: 0, rows: 0, blocks: &[], first_block: 0 }; FEW_SPANS];
        few.iter_mut().zip(spans).for_each(|(few, span)| *few = run(span));
        let several: Vec<RowRun<'_>> =
            if spans.len() > FEW_SPANS { spans.iter().map(run).collect() } else { Vec::new() };
        let runs = if spans.len() > FEW_SPANS { &several[..] } else { &few[..spans.len()] };
        let sinks = spec.sinks.map(|w| self.weights.vector(w));
        let biases = spec.biases.map_or(&[][..], |table| &self.plan.ropes[table]);
        let scores =
            ScoreRules { heads: spec.heads, scale, soft_cap: spec.soft_cap, sinks, slopes: &self.state.slopes, biases };
        if let Some(cache) = &self.state.caches[spec.layer] {
            let q = Queries { rows: &self.values[qkv.0], width: spec.qkv_width() };
            self.cpu.attend(cache, &scores, q, runs, &self.state.seen, &mut self.work, &mut result);
        }
        self.put(out, result);
    }
}

/// Rotates the first elements of a head: `half` pairs by sine and cosine of `angles`.
fn rotate(head: &mut [f32], style: RopeStyle, half: usize, angles: &[(f32, f32)]) {
    match style {
        RopeStyle::Norm => {
            for (pair, (sin, cos)) in head.chunks_exact_mut(2).zip(angles) {
                let (x, y) = (pair[0], pair[1]);
                (pair[0], pair[1]) = (x * cos - y * sin, x * sin + y * cos);
            }
        }
        RopeStyle::Neox => {
            let (low, high) = head.split_at_mut(half);
            for ((a, b), (sin, cos)) in low.iter_mut().zip(high).zip(angles) {
                let (x, y) = (*a, *b);
                (*a, *b) = (x * cos - y * sin, x * sin + y * cos);
            }
        }
    }
}

/// Weights that were decoded when they were loaded, and matrices as the file has them.
struct WeightLookup<'a> {
    gguf: &'a Gguf,
    plan: &'a Plan,
    weights: &'a super::Weights<'a>,
}

impl WeightFloats for WeightLookup<'_> {
    fn vector(&self, w: Weight) -> Cow<'_, [f32]> {
        Cow::Borrowed(self.weights.vector(w))
    }

    fn times(&self, w: Weight, first: usize, x: &[f32], out: &mut [f32]) {
        crate::cpu::interpret::FileWeights { gguf: self.gguf, plan: self.plan }.times(w, first, x, out);
    }
}
