//! Routing by other rules, and products with experts' matrices one by one.

use super::Env;
use crate::cpu::ops::Route;
use crate::plan::{Choose, Cols, ExpertsBias, ExpertsMatMul, Gating};

/// Softmax in place.
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

/// The experts of a row of logits, `[4 * used]` as [`crate::plan::Op::Route`] has them.
pub fn choose(c: &Choose, bias: Option<&[f32]>, taken: Option<&[f32]>, logits: &[f32], out: &mut [f32]) {
    let (n, k) = (c.top_k.n_expert, c.top_k.k);
    let mut scores = logits.to_vec();
    match c.gating {
        Gating::Softmax => softmax(&mut scores),
        Gating::Sigmoid => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        Gating::SqrtSoftplus => scores.iter_mut().for_each(|x| *x = super::map::softplus(*x).sqrt()),
        Gating::SoftmaxOfTaken => {}
    }
    let mut wanted: Vec<f32> = scores.iter().enumerate().map(|(e, s)| s + bias.map_or(0.0, |b| b[e])).collect();
    if let Some(groups) = c.groups {
        let len = n / groups.count;
        let best = |g: usize| {
            let mut of: Vec<f32> = wanted[g * len..][..len].to_vec();
            of.sort_by(|a, b| b.total_cmp(a));
            of.iter().take(2).sum::<f32>()
        };
        let mut order: Vec<(usize, f32)> = (0..groups.count).map(|g| (g, best(g))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        order[groups.used..].iter().for_each(|(g, _)| wanted[g * len..][..len].fill(f32::NEG_INFINITY));
    }
    let mut order: Vec<usize> = (0..n).collect();
    match taken {
        Some(taken) => order = taken.iter().map(|e| e.to_bits() as usize).collect(),
        None => order.sort_by(|a, b| wanted[*b].total_cmp(&wanted[*a])),
    }
    let mut weights: Vec<f32> = order[..k].iter().map(|e| scores[*e]).collect();
    if c.gating == Gating::SoftmaxOfTaken {
        softmax(&mut weights);
    }
    let sum = c.least_sum.map_or(1.0, |least| weights.iter().sum::<f32>().max(least));
    for (slot, (e, weight)) in order.iter().zip(&weights).enumerate() {
        out[slot] = f32::from_bits(*e as u32);
        out[k + slot] = weight / sum * c.scale;
        out[2 * k + slot] = 1.0;
        out[3 * k + slot] = 1.0;
    }
}

impl Env<'_> {
    pub(super) fn choose(&mut self, c: &Choose) {
        let floats = self.floats;
        let (bias, table) = (c.bias.map(|w| floats.vector(w)), c.table.map(|w| floats.vector(w)));
        let (n, out) = (c.top_k.n_expert, Cols { val: c.out, at: 0, stride: 0 });
        self.write(out, 1, 4 * c.top_k.k, |env, row, out| {
            let logits = env.cols(Cols { val: c.logits, at: 0, stride: 0 }, row, 0, n);
            let taken = table.as_deref().map(|t| &t[env.books.id(&env.rows[row]) * c.top_k.k..][..c.top_k.k]);
            choose(c, bias.as_deref(), taken, logits, out);
        });
    }

    pub(super) fn experts_matmul(&mut self, e: &ExpertsMatMul) {
        let info = &self.plan.weights[e.weight.0];
        let (m, k, used) = (info.rows / e.top_k.n_expert, info.cols, e.top_k.k);
        let rows = self.rows_of(e.out);
        let mut result = vec![0.0; rows * used * m];
        let (x, route) = (&self.values[e.x.0], &self.values[e.route.0]);
        (self.each)(&mut result, m, &|i, out| {
            let (row, slot) = (i / used, i % used);
            let expert = Route::of(&route[row * 4 * used..], slot, used).expert;
            let x = &x[if e.own_input { i } else { row } * k..][..k];
            self.floats.times(e.weight, expert * m, x, out);
        });
        self.values[e.out.0] = result;
    }

    pub(super) fn experts_bias(&mut self, b: &ExpertsBias) {
        let (used, bias) = (b.top_k.k, self.floats.vector(b.bias));
        let m = bias.len() / b.top_k.n_expert;
        let mut out = std::mem::take(&mut self.values[b.out.0]);
        let route = &self.values[b.route.0];
        let width = if b.summed { m } else { used * m };
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            for slot in 0..used {
                let r = Route::of(&route[row * 4 * used..], slot, used);
                let bias = &bias[r.expert * m..][..m];
                if b.summed {
                    out.iter_mut().zip(bias).for_each(|(o, b)| *o += r.weight * b);
                } else {
                    out[slot * m..][..m].iter_mut().zip(bias).for_each(|(o, b)| *o += b);
                }
            }
        }
        drop(bias);
        self.values[b.out.0] = out;
    }
}
