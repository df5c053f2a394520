//! One function per kind of op: what it reads, the loop of `ops.rs`, what it writes.

use super::general::{apply_gate, Env, WeightFloats};
use super::{ops, Reference};
use pumex_cpu::attention::Elements;
use pumex_gguf::Gguf;
use pumex_plan::{
    instead, AttentionSpec, ChoosePositions, Cols, Extent, Gate, General, MatPart, Norm, Op, Plan, RopeNorm, Router,
    Rows, TopK, Val, Weight,
};
use pumex_step::Row;
use std::borrow::Cow;

impl Reference<'_> {
    /// Runs an op for `rows`, of which those of `wanted` (indices) want logits.
    pub(super) fn op(&mut self, index: usize, rows: &[Row], wanted: &[usize]) {
        self.books.note_importance(&self.plan, &self.values, index);
        let op = self.plan.ops[index].clone();
        match &op {
            Op::Embed { weight, instead, out } => self.embed(*weight, *instead, *out, rows),
            Op::RmsNorm { x, weight, eps, out } => self.rms_norm(*x, Norm { weight: *weight, eps: *eps }, *out, wanted),
            Op::MatMul { x, norm, parts, add, out } => self.matmul(*x, norm, parts, *add, *out),
            Op::GatedMatMul { x, norm, gate, up, by, out } => self.matmul_gated(*x, norm, (gate, up, *by), *out),
            Op::Route { logits, router, top_k, scale, scales, out } => {
                if let Some(Router { x, norm, part }) = router {
                    self.matmul(*x, norm, &[*part], false, *logits);
                }
                self.route(*logits, *top_k, *scale, scales, *out);
            }
            Op::GatedExperts { x, norm, route, top_k, gate, up, biases, by, out } => {
                let x = self.input(*x, norm);
                let result = self.matmul_gated_experts(&x, (*route, *top_k), [*gate, *up], *biases, *by, *out);
                self.values[out.0] = result;
            }
            Op::ExpertsAdd { x, route, top_k, down, bias, out } => {
                self.experts_add(*x, (*route, *top_k), *down, *bias, *out);
            }
            Op::RopeKv { qkv, spec, rope } => {
                let rotated = self.rotate_qkv(*qkv, spec, rope, rows);
                self.values[qkv.0] = rotated;
            }
            Op::Attend { qkv, rope, spec, scale, out } => self.attend(*qkv, rope, spec, *scale, *out, rows),
            Op::General(g) => self.general(g, rows, wanted),
            Op::Sample { logits } => self.sample(*logits, rows, wanted),
        }
    }

    /// Rows of a value, normed if the op norms its input.
    fn input(&self, x: Val, norm: &Option<Norm>) -> Cow<'_, [f32]> {
        let Some(Norm { weight, eps }) = norm else { return Cow::Borrowed(&self.values[x.0]) };
        let weight = self.vector(*weight);
        let rows = self.values[x.0].chunks_exact(self.plan.values[x.0].width);
        Cow::Owned(rows.flat_map(|row| ops::rms_norm(row, &weight, *eps)).collect())
    }

    fn embed(&mut self, weight: Weight, list: Option<usize>, out: Val, rows: &[Row]) {
        let info = &self.plan.weights[weight.0];
        if info.is_from_host() {
            let row = |r: &Row| &self.from_host[self.books.id(r) * info.cols..][..info.cols];
            self.values[out.0] = rows.iter().flat_map(row).copied().collect();
            return;
        }
        let table = self.matrix(weight);
        let pairs = list.map_or(&[][..], |list| &self.plan.numbers[list]);
        let found = rows.iter().flat_map(|r| table.row(instead(pairs, self.books.id(r)))).collect();
        self.values[out.0] = found;
    }

    fn rms_norm(&mut self, x: Val, norm: Norm, out: Val, wanted: &[usize]) {
        let (dim, weight) = (self.plan.values[x.0].width, self.vector(norm.weight));
        let x = &self.values[x.0];
        let take: Vec<usize> = match self.plan.values[out.0].rows {
            Rows::Step => (0..x.len() / dim).collect(),
            Rows::Output => wanted.to_vec(),
        };
        let normed = |&r: &usize| ops::rms_norm(&x[r * dim..][..dim], &weight, norm.eps);
        self.values[out.0] = take.iter().flat_map(normed).collect();
    }

    fn matmul(&mut self, x: Val, norm: &Option<Norm>, parts: &[MatPart], add: bool, out: Val) {
        let input = self.input(x, norm);
        let products: Vec<(Vec<f32>, usize)> =
            parts.iter().map(|p| (self.product(&input, p), self.plan.weights[p.weight.0].rows)).collect();
        let joined = ops::side_by_side(&products, input.len() / self.plan.values[x.0].width);
        if add {
            self.values[out.0].iter_mut().zip(&joined).for_each(|(o, j)| *o += j);
        } else {
            self.values[out.0] = joined;
        }
    }

    fn matmul_gated(&mut self, x: Val, norm: &Option<Norm>, (gate, up, by): (&MatPart, &MatPart, Gate), out: Val) {
        let input = self.input(x, norm);
        let (mut g, u) = (self.product(&input, gate), self.product(&input, up));
        g.iter_mut().zip(&u).for_each(|(g, u)| *g = apply_gate(by, *g, *u));
        self.values[out.0] = g;
    }

    fn product(&self, x: &[f32], part: &MatPart) -> Vec<f32> {
        let mut out = self.matrix(part.weight).times(x);
        if part.scale != 1.0 {
            out.iter_mut().for_each(|o| *o *= part.scale);
        }
        if let Some(bias) = part.bias.map(|b| self.vector(b)) {
            out.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(&bias).for_each(|(o, b)| *o += b));
        }
        out
    }

    fn route(&mut self, logits: Val, top_k: TopK, scale: f32, scales: &[Option<Weight>; 3], out: Val) {
        let scales = scales.map(|s| s.map(|w| self.vector(w)));
        let scales = scales.each_ref().map(|s| s.as_deref());
        let rows = self.values[logits.0].chunks_exact(top_k.n_expert);
        let mut result = vec![0.0; rows.len() * 4 * top_k.k];
        for (row, out) in rows.zip(result.chunks_exact_mut(4 * top_k.k)) {
            ops::route(row, top_k.k, scale, &scales, out);
        }
        self.values[out.0] = result;
    }

    fn matmul_gated_experts(
        &self,
        x: &[f32],
        (route, top_k): (Val, TopK),
        [gate, up]: [Weight; 2],
        biases: [Option<Weight>; 2],
        by: Gate,
        out: Val,
    ) -> Vec<f32> {
        let (gate, up) = (self.matrix(gate), self.matrix(up));
        let biases = biases.map(|b| b.map(|b| self.matrix(b)));
        let mut result = vec![0.0; x.len() / gate.cols * self.plan.values[out.0].width];
        let route = &self.values[route.0];
        ops::for_rows(&mut result, gate.rows / top_k.n_expert, |pair, out| {
            let (row, slot) = (pair / top_k.k, pair % top_k.k);
            let x = &x[row * gate.cols..][..gate.cols];
            let route = ops::Route::of(&route[row * 4 * top_k.k..], slot, top_k.k);
            let first = route.expert * out.len();
            let rows = biases.each_ref().map(|b| b.as_ref().map(|b| b.row(route.expert)));
            let bias = |of: usize, m: usize| rows[of].as_ref().map_or(0.0, |row| row[m]);
            for (m, out) in out.iter_mut().enumerate() {
                let g = ops::dot(&gate.row(first + m), x) * route.gate_scale;
                let u = ops::dot(&up.row(first + m), x) * route.up_scale;
                *out = apply_gate(by, g + bias(0, m), u + bias(1, m));
            }
        });
        result
    }

    fn experts_add(&mut self, x: Val, (route, top_k): (Val, TopK), down: Weight, bias: Option<Weight>, out: Val) {
        let (down, bias) = (self.matrix(down), bias.map(|b| self.matrix(b)));
        let mut result = self.values[out.0].clone();
        let (x, route) = (&self.values[x.0], &self.values[route.0]);
        ops::for_rows(&mut result, down.rows / top_k.n_expert, |row, out| {
            for slot in 0..top_k.k {
                let x = &x[(row * top_k.k + slot) * down.cols..][..down.cols];
                let route = ops::Route::of(&route[row * 4 * top_k.k..], slot, top_k.k);
                let first = route.expert * out.len();
                let row = bias.as_ref().map(|b| b.row(route.expert));
                for (m, out) in out.iter_mut().enumerate() {
                    let bias = row.as_ref().map_or(0.0, |row| row[m]);
                    *out += route.weight * (ops::dot(&down.row(first + m), x) + bias);
                }
            }
        });
        self.values[out.0] = result;
    }

    /// Rows of q, k and v with q and k rotated; k and v go to the cache of the spec's layer.
    fn rotate_qkv(&mut self, qkv: Val, spec: &AttentionSpec, r: &RopeNorm, rows: &[Row]) -> Vec<f32> {
        let norms = [r.q_norm.map(|w| self.vector(w)), r.k_norm.map(|w| self.vector(w))];
        let (hd, k_at, v_at) = (spec.head_dim, spec.heads * spec.head_dim, spec.v_at());
        let mut values = self.values[qkv.0].clone();
        let inv_freq = &self.plan.ropes[r.rope.table];
        let plan = &self.plan;
        let kept = self.elements.into_iter().zip([hd, spec.v_dim]);
        let kept: Vec<(Elements, usize)> = kept.collect();
        let positions = self.books.positions().iter();
        for ((row, own), qkv) in rows.iter().zip(positions).zip(values.chunks_exact_mut(spec.qkv_width())) {
            let turns = inv_freq.iter().enumerate().map(|(i, freq)| (own[plan.stream(i)] as f32 * freq).sin_cos());
            for (h, head) in qkv.chunks_exact_mut(hd).take(spec.heads + spec.kv_heads).enumerate() {
                if let Some(norm) = &norms[usize::from(h >= spec.heads)] {
                    head.copy_from_slice(&ops::rms_norm(head, norm, r.rope.norm_eps));
                }
                ops::turn(head, r.rope, turns.clone());
            }
            let (k, v) = &mut self.caches[row.seq as usize][spec.layer];
            for ((store, new), &(elements, head)) in [(k, &qkv[k_at..v_at]), (v, &qkv[v_at..])].into_iter().zip(&kept) {
                let from = row.pos as usize * new.len();
                store.resize(store.len().max(from + new.len()), 0.0);
                let kept = &mut store[from..from + new.len()];
                kept.copy_from_slice(new);
                // An indexer keeps no values.
                kept.chunks_exact_mut(head.max(1)).for_each(|head| elements.round(head));
            }
        }
        values
    }

    fn attend(&mut self, qkv: Val, rope: &Option<RopeNorm>, spec: &AttentionSpec, scale: f32, out: Val, rows: &[Row]) {
        let rotated = rope.as_ref().map(|r| self.rotate_qkv(qkv, spec, r, rows));
        let (width, q) = (spec.qkv_width(), rotated.as_ref().unwrap_or(&self.values[qkv.0]));
        let sinks = spec.sinks.map(|w| self.vector(w));
        let mut result = vec![0.0; rows.len() * spec.heads * spec.v_dim];
        let (caches, biases) = (&self.caches, spec.biases.map(|table| self.plan.ropes[table].as_slice()));
        let (blocks, sight) = (self.session.blocks(), self.plan.sight);
        let list = spec.chosen.map(|chosen| (&self.values[chosen.list.0], self.plan.values[chosen.list.0].width));
        ops::for_rows(&mut result, spec.heads * spec.v_dim, |i, out| {
            let (k, v) = &caches[rows[i].seq as usize][spec.layer];
            let extent = Extent { held: k.len() / (spec.kv_heads * spec.head_dim), source: blocks.source(rows[i].seq) };
            let pos = rows[i].pos as usize;
            let seen = (spec.mask.first(pos, extent), spec.mask.last(pos, extent));
            let seen = sight.of(spec.mask, seen, rows[i].group());
            let list = list.map(|(list, width)| &list[i * width..][..width]);
            let of = ops::AttentionRows { spec, scale, sinks: sinks.as_deref(), biases, seen, list };
            of.attend(&q[i * width..][..width], (k, v), pos, out);
        });
        self.values[out.0] = result;
    }

    fn general(&mut self, op: &General, rows: &[Row], wanted: &[usize]) {
        if let General::ChoosePositions(c) = op {
            return self.choose_positions(c, rows);
        }
        let Self { gguf, plan, states, values, spare, books, .. } = self;
        let floats = FileWeights { gguf, plan };
        let each = |out: &mut [f32], width: usize, f: &(dyn Fn(usize, &mut [f32]) + Sync)| ops::for_rows(out, width, f);
        Env { plan, rows, wanted, values, states, floats: &floats, books, each: &each, spare }.run(op);
    }

    fn choose_positions(&mut self, c: &ChoosePositions, rows: &[Row]) {
        let (chosen, width) = (c.chosen, self.plan.values[c.chosen.list.0].width);
        let mut lists = vec![0.0; rows.len() * width];
        let cols = |from: Cols, row: usize, group: usize, len: usize| {
            let width = self.plan.values[from.val.0].width;
            &self.values[from.val.0][row * width + from.at + group * from.stride..][..len]
        };
        ops::for_rows(&mut lists, width, |i, list| {
            let (keys, pos) = (&self.caches[rows[i].seq as usize][c.layer].0, rows[i].pos as usize);
            let score = |block: usize| {
                let key = &keys[((block + 1) * chosen.every - 1) * c.dim..][..c.dim];
                let weight = |h: usize| c.weights.map_or(1.0, |w| cols(w, i, h, 1)[0]);
                let part = |h: usize| weight(h) * ops::dot(cols(c.q, i, h, c.dim), key).max(0.0);
                (0..c.heads).map(part).fold(0.0, |sum, part| sum + part)
            };
            let blocks = if chosen.sees_all(pos) { 0 } else { chosen.whole(pos) };
            let scores: Vec<f32> = (0..blocks).map(score).collect();
            chosen.put(pos, &scores, &mut Vec::new(), list);
        });
        self.values[chosen.list.0] = lists;
    }

    fn sample(&mut self, logits: Val, rows: &[Row], wanted: &[usize]) {
        let largest = |logits: &[f32]| logits.iter().all(|l| !l.is_nan()).then(|| ops::argmax(logits));
        self.books.sample(&self.values[logits.0], self.plan.n_vocab, rows, wanted, largest);
    }
}

/// Weights as the file has them, decoded when they are read.
pub(super) struct FileWeights<'a> {
    pub gguf: &'a Gguf,
    pub plan: &'a Plan,
}

impl FileWeights<'_> {
    fn matrix(&self, w: Weight) -> ops::StoredMatrix<'_> {
        let info = &self.plan.weights[w.0];
        let data = self.gguf.data(&self.gguf.tensors()[info.tensor]);
        ops::StoredMatrix { data, rows: info.rows, cols: info.cols, format: info.format }
    }
}

impl WeightFloats for FileWeights<'_> {
    fn vector(&self, w: Weight) -> Cow<'_, [f32]> {
        let matrix = self.matrix(w);
        Cow::Owned((0..matrix.rows).flat_map(|row| matrix.row(row)).collect())
    }

    fn times(&self, w: Weight, first: usize, x: &[f32], out: &mut [f32]) {
        let (matrix, mut row) = (self.matrix(w), vec![0.0; x.len()]);
        for (i, out) in out.iter_mut().enumerate() {
            matrix.decode(first + i, &mut row);
            *out = ops::dot(&row, x);
        }
    }
}
