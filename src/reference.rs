//! The plan's plain interpreter: f32 on the CPU, one loop per op. It is the truth the Vulkan engine is compared with,
//! and what `--device cpu` runs.

mod ops;

pub use ops::route;

use crate::gguf::Gguf;
use crate::plan::{MatPart, Op, Plan, Rows, Val, Weight};
use crate::sample::{Draw, SamplerOptions};
use crate::step::{self, Counters, Output, Row, Runner, Squares, Ticket, Token, Want};
use crate::{Error, Result};
use std::ops::Range;

/// KV cache of one sequence: per layer, K and V as `[pos, kv_heads * head_dim]`.
type SeqCache = Vec<(Vec<f32>, Vec<f32>)>;

/// Runs a plan on the CPU.
pub struct Reference<'a> {
    gguf: &'a Gguf,
    plan: Plan,
    n_ctx: usize,
    max_rows: usize,
    caches: Vec<SeqCache>,
    sampled: Vec<u32>,
    draws: Vec<Draw>,
    ids: Vec<u32>,
    values: Vec<Vec<f32>>,
    importance: Option<Vec<Vec<f64>>>,
    finished: Vec<(Ticket, Output)>,
    next_ticket: u64,
}

impl<'a> Reference<'a> {
    /// An interpreter for up to `n_seqs` sequences of `n_ctx` positions, `max_rows` rows a step.
    pub fn new(gguf: &'a Gguf, plan: Plan, n_ctx: usize, n_seqs: usize, max_rows: usize) -> Self {
        let layer = || (Vec::new(), Vec::new());
        Reference {
            caches: (0..n_seqs).map(|_| (0..plan.kv.layers).map(|_| layer()).collect()).collect(),
            sampled: vec![0; n_seqs],
            draws: Vec::new(),
            ids: Vec::new(),
            values: vec![Vec::new(); plan.values.len()],
            gguf,
            plan,
            n_ctx,
            max_rows,
            importance: None,
            finished: Vec::new(),
            next_ticket: 0,
        }
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the ops of `range` for `rows`; values of earlier ops are those of the last call.
    pub fn run_ops(&mut self, rows: &[Row], range: Range<usize>) {
        let wanted: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].wanted).collect();
        for i in range {
            self.op(i, rows, &wanted);
        }
    }

    /// A value after [`Reference::run_ops`], `[rows, width]`.
    pub fn value(&self, v: Val) -> &[f32] {
        &self.values[v.0]
    }

    fn matrix(&self, w: Weight) -> ops::Matrix<'_> {
        let info = &self.plan.weights[w.0];
        let data = self.gguf.data(&self.gguf.tensors()[info.tensor]);
        ops::Matrix { data, rows: info.rows, cols: info.cols, format: info.format }
    }

    fn vector(&self, w: Weight) -> Vec<f32> {
        self.matrix(w).row(0)
    }

    /// Adds the squares of an op's input to its sums, if it is a product and they are wanted.
    fn note_importance(&mut self, index: usize) {
        let Some(sums) = &mut self.importance else { return };
        let inputs = self.plan.inputs();
        let Some((input, sums)) = inputs.iter().zip(sums).find(|(input, _)| input.op == index) else { return };
        let mut add = |matrix: usize, row: &[f32]| {
            let sums = &mut sums[matrix * input.cols..][..input.cols];
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x) * f64::from(*x));
        };
        let x = self.values[input.x.0].chunks_exact(input.cols);
        let Some(routed) = input.routed else { return x.for_each(|row| add(0, row)) };
        let (x, used) = (x.collect::<Vec<_>>(), routed.chosen.used);
        let mut counts = vec![0.0; input.matrices()];
        for (i, route) in self.values[routed.route.0].chunks_exact(4 * used).enumerate() {
            for slot in 0..used {
                let expert = ops::Route::of(route, slot, used).expert;
                add(expert, x[if routed.apart { i * used + slot } else { i }]);
                counts[expert] += 1.0;
            }
        }
        sums[input.matrices() * input.cols..].iter_mut().zip(&counts).for_each(|(all, n)| *all += n);
    }

    fn op(&mut self, index: usize, rows: &[Row], wanted: &[usize]) {
        self.note_importance(index);
        match self.plan.ops[index].clone() {
            Op::Embed { weight, out } => {
                let ids: Vec<usize> = rows
                    .iter()
                    .map(|r| match r.token {
                        Token::Id(id) => id as usize,
                        Token::Sampled => self.sampled[r.seq as usize] as usize,
                    })
                    .collect();
                let table = self.matrix(weight);
                self.values[out.0] = ids.iter().flat_map(|&id| table.row(id)).collect();
            }
            Op::RmsNorm { x, weight, eps, out } => {
                let (dim, weight) = (self.plan.values[x.0].width, self.vector(weight));
                let x = &self.values[x.0];
                let take: Vec<usize> = match self.plan.values[out.0].rows {
                    Rows::Step => (0..rows.len()).collect(),
                    Rows::Wanted => wanted.to_vec(),
                };
                self.values[out.0] =
                    take.iter().flat_map(|&r| ops::rms_norm(&x[r * dim..][..dim], &weight, eps)).collect();
            }
            Op::MatMul { x, parts, add, out } => {
                let products: Vec<(Vec<f32>, usize)> =
                    parts.iter().map(|p| (self.product(x, p), self.plan.weights[p.weight.0].rows)).collect();
                let count = self.values[x.0].len() / self.plan.values[x.0].width;
                let joined = ops::side_by_side(&products, count);
                if add {
                    self.values[out.0].iter_mut().zip(&joined).for_each(|(o, j)| *o += j);
                } else {
                    self.values[out.0] = joined;
                }
            }
            Op::GatedMatMul { x, gate, up, out } => {
                let mut g = self.product(x, &gate);
                let u = self.product(x, &up);
                g.iter_mut().zip(&u).for_each(|(g, u)| *g = ops::silu(*g) * u);
                self.values[out.0] = g;
            }
            Op::Route { logits, chosen, scale, scales, out } => {
                let scales = scales.map(|s| s.map(|w| self.vector(w)));
                let rows = self.values[logits.0].chunks_exact(chosen.experts);
                self.values[out.0] = rows.flat_map(|row| ops::route(row, chosen.used, scale, &scales)).collect();
            }
            Op::GatedExperts { x, route, chosen, gate, up, out } => {
                let (gate, up) = (self.matrix(gate), self.matrix(up));
                let mut result = vec![0.0; rows.len() * self.plan.values[out.0].width];
                let (x, route) = (&self.values[x.0], &self.values[route.0]);
                ops::for_rows(&mut result, gate.rows / chosen.experts, |pair, out| {
                    let (row, slot) = (pair / chosen.used, pair % chosen.used);
                    let x = &x[row * gate.cols..][..gate.cols];
                    let route = ops::Route::of(&route[row * 4 * chosen.used..], slot, chosen.used);
                    let first = route.expert * out.len();
                    for (m, out) in out.iter_mut().enumerate() {
                        let g = ops::dot(&gate.row(first + m), x) * route.gate_scale;
                        *out = ops::silu(g) * ops::dot(&up.row(first + m), x) * route.up_scale;
                    }
                });
                self.values[out.0] = result;
            }
            Op::ExpertsAdd { x, route, chosen, down, out } => {
                let down = self.matrix(down);
                let mut result = self.values[out.0].clone();
                let (x, route) = (&self.values[x.0], &self.values[route.0]);
                ops::for_rows(&mut result, down.rows / chosen.experts, |row, out| {
                    for slot in 0..chosen.used {
                        let x = &x[(row * chosen.used + slot) * down.cols..][..down.cols];
                        let route = ops::Route::of(&route[row * 4 * chosen.used..], slot, chosen.used);
                        let first = route.expert * out.len();
                        for (m, out) in out.iter_mut().enumerate() {
                            *out += route.weight * ops::dot(&down.row(first + m), x);
                        }
                    }
                });
                self.values[out.0] = result;
            }
            Op::RopeKv { qkv, cache, rope, q_norm, k_norm } => {
                let norms = [q_norm.map(|w| self.vector(w)), k_norm.map(|w| self.vector(w))];
                let (width, hd) = (cache.qkv_width(), cache.head_dim);
                let mut values = std::mem::take(&mut self.values[qkv.0]);
                for (row, qkv) in rows.iter().zip(values.chunks_exact_mut(width)) {
                    for (h, head) in qkv.chunks_exact_mut(hd).take(cache.heads + cache.kv_heads).enumerate() {
                        if let Some(norm) = &norms[usize::from(h >= cache.heads)] {
                            head.copy_from_slice(&ops::rms_norm(head, norm, rope.norm_eps));
                        }
                        ops::rope(head, row.pos, rope, &self.plan.inv_freq);
                    }
                    let (k_at, kv_dim) = (cache.heads * hd, cache.kv_heads * hd);
                    let (k, v) = &mut self.caches[row.seq as usize][cache.layer];
                    for (store, at) in [(k, k_at), (v, k_at + kv_dim)] {
                        store.resize((row.pos as usize + 1) * kv_dim, 0.0);
                        store[row.pos as usize * kv_dim..].copy_from_slice(&qkv[at..at + kv_dim]);
                    }
                }
                self.values[qkv.0] = values;
            }
            Op::Attend { qkv, cache, scale, out } => {
                let width = cache.qkv_width();
                let mut result = vec![0.0; rows.len() * cache.heads * cache.head_dim];
                let q = &self.values[qkv.0];
                let caches = &self.caches;
                ops::for_rows(&mut result, cache.heads * cache.head_dim, |i, out| {
                    let (k, v) = &caches[rows[i].seq as usize][cache.layer];
                    ops::attend(&q[i * width..][..width], k, v, rows[i].pos as usize + 1, cache, scale, out);
                });
                self.values[out.0] = result;
            }
            Op::Sample { logits } => {
                let unread = |row: &Row| (row.token == Token::Sampled).then(|| self.sampled[row.seq as usize]);
                let logits = self.values[logits.0].chunks_exact(self.plan.n_vocab);
                let choose = |(i, (&r, logits)): (usize, (&usize, &[f32]))| match self.draws.get(i) {
                    Some(draw) => draw.pick(logits, unread(&rows[r]), &mut Vec::new()),
                    None => ops::argmax(logits),
                };
                self.ids = wanted.iter().zip(logits).enumerate().map(choose).collect();
                wanted.iter().zip(&self.ids).for_each(|(&r, id)| self.sampled[rows[r].seq as usize] = *id);
            }
        }
    }

    fn product(&self, x: Val, part: &MatPart) -> Vec<f32> {
        let mut out = self.matrix(part.weight).times(&self.values[x.0]);
        if part.scale != 1.0 {
            out.iter_mut().for_each(|o| *o *= part.scale);
        }
        if let Some(bias) = part.bias.map(|b| self.vector(b)) {
            out.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(&bias).for_each(|(o, b)| *o += b));
        }
        out
    }
}

impl Runner for Reference<'_> {
    fn n_vocab(&self) -> usize {
        self.plan.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn start(&mut self, rows: &[Row], want: Want<'_>) -> Result<Ticket> {
        let limits = step::Limits {
            n_vocab: self.plan.n_vocab,
            n_ctx: self.n_ctx,
            max_rows: self.max_rows,
            n_seqs: self.caches.len(),
        };
        limits.check(rows)?;
        step::Limits::check_draws(rows, want)?;
        for row in rows {
            let held = self.caches[row.seq as usize].first().map_or(0, |(k, _)| k.len());
            let held = held / (self.plan.kv.kv_heads * self.plan.kv.head_dim);
            let earlier = rows.iter().filter(|r| r.seq == row.seq && r.pos < row.pos).count();
            if row.pos as usize > held + earlier {
                let what = format!("position {} of sequence {}: expected at most {held}", row.pos, row.seq);
                return Err(Error::Request(what));
            }
        }
        self.draws = want.draws().to_vec();
        self.run_ops(rows, 0..self.plan.ops.len());
        self.draws.clear();
        let (logits, ids) = (&self.values[self.plan.logits.0], self.ids.clone());
        let logits = if want == Want::Logits { logits.clone() } else { Vec::new() };
        self.next_ticket += 1;
        self.finished.push((Ticket(self.next_ticket), Output { ids, logits }));
        Ok(Ticket(self.next_ticket))
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        match self.finished.iter().position(|(t, _)| *t == ticket) {
            Some(i) => Ok(self.finished.remove(i).1),
            None => Err(Error::Request(format!("step {}: expected a step that was started", ticket.0))),
        }
    }

    fn refuses(&self, _chain: &SamplerOptions) -> Option<String> {
        None
    }

    fn forget(&mut self, seq: u32, from: u32) {
        let kv_dim = self.plan.kv.kv_heads * self.plan.kv.head_dim;
        for (k, v) in &mut self.caches[seq as usize] {
            k.truncate(from as usize * kv_dim);
            v.truncate(from as usize * kv_dim);
        }
    }

    fn collect_importance(&mut self) -> Result<()> {
        self.importance = Some(self.plan.inputs().iter().map(|input| vec![0.0; input.floats()]).collect());
        Ok(())
    }

    fn importance(&mut self) -> Result<Vec<Squares>> {
        let sums = self.importance.iter().flatten().map(|sums| sums.iter().map(|s| *s as f32).collect::<Vec<_>>());
        Ok(self.plan.inputs().iter().zip(sums).map(|(input, sums)| self.plan.squares(input, sums)).collect())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn device(&self) -> String {
        format!("CPU reference, {} threads", rayon::current_num_threads())
    }
}
