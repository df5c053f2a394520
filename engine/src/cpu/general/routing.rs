//! Routing by other rules, and products with experts' matrices one by one.

use super::Env;
use crate::cpu::ops::{largest_of, Route};
use pumex_plan::{Choose, Cols, ExpertsBias, ExpertsMatMul, Gating};
use std::cell::RefCell;

/// Softmax in place.
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

/// Memory to choose in.
#[derive(Default)]
struct RoutingScratch {
    scores: Vec<f32>,
    wanted: Vec<f32>,
    of_group: Vec<f32>,
    groups: Vec<usize>,
    order: Vec<usize>,
    weights: Vec<f32>,
}

thread_local! {
    static ROOM: RefCell<RoutingScratch> = RefCell::new(RoutingScratch::default());
}

/// The experts of a row of logits, `[4 * used]` as [`pumex_plan::Op::Route`] has them.
pub fn choose(c: &Choose, bias: Option<&[f32]>, taken: Option<&[f32]>, logits: &[f32], out: &mut [f32]) {
    ROOM.with_borrow_mut(|room| room.choose(c, bias, taken, logits, out));
}

impl RoutingScratch {
    fn choose(&mut self, c: &Choose, bias: Option<&[f32]>, taken: Option<&[f32]>, logits: &[f32], out: &mut [f32]) {
        let (n, k) = (c.top_k.n_expert, c.top_k.k);
        let RoutingScratch { scores, wanted, of_group, groups: ranked, order, weights } = self;
        logits.clone_into(scores);
        match c.gating {
            Gating::Softmax => softmax(scores),
            Gating::Sigmoid => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
            Gating::SqrtSoftplus => scores.iter_mut().for_each(|x| *x = super::map::softplus(*x).sqrt()),
            Gating::SoftmaxOfTaken => {}
        }
        wanted.clear();
        wanted.extend(scores.iter().enumerate().map(|(e, s)| s + bias.map_or(0.0, |b| b[e])));
        if let Some(groups) = c.groups {
            let len = n / groups.count;
            of_group.clear();
            for of in wanted.chunks_exact(len) {
                largest_of(of, 2.min(len), order);
                of_group.push(order.iter().map(|i| of[*i]).sum());
            }
            largest_of(of_group, groups.count, ranked);
            ranked[groups.used..].iter().for_each(|g| wanted[g * len..][..len].fill(f32::NEG_INFINITY));
        }
        largest_of(wanted, k, order);
        if let Some(taken) = taken {
            order.clear();
            order.extend(taken.iter().map(|e| e.to_bits() as usize));
        }
        order.iter_mut().for_each(|e| *e /= c.sharing);
        weights.clear();
        weights.extend(order.iter().map(|e| scores[*e]));
        if c.gating == Gating::SoftmaxOfTaken {
            softmax(weights);
        }
        let sum = c.least_sum.map_or(1.0, |least| weights.iter().sum::<f32>().max(least));
        for (slot, (e, weight)) in order.iter().zip(weights).enumerate() {
            out[slot] = f32::from_bits(*e as u32);
            out[k + slot] = *weight / sum * c.scale;
            out[2 * k + slot] = 1.0;
            out[3 * k + slot] = 1.0;
        }
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
        let mut result = self.spare.take(rows * used * m);
        let (x, route) = (&self.values[e.x.0], &self.values[e.route.0]);
        (self.each)(&mut result, m, &|i, out| {
            let (row, slot) = (i / used, i % used);
            let expert = Route::of(&route[row * 4 * used..], slot, used).expert;
            let x = &x[if e.own_input { i } else { row } * k..][..k];
            self.floats.times(e.weight, expert * m, x, out);
        });
        self.replace(e.out, result);
    }

    pub(super) fn experts_bias(&mut self, b: &ExpertsBias) {
        let (used, bias) = (b.top_k.k, self.floats.vector(b.bias));
        let m = bias.len() / b.top_k.n_expert;
        let mut out = std::mem::take(&mut self.values[b.out.0]);
        let route = &self.values[b.route.0];
        for (row, out) in out.chunks_exact_mut(used * m).enumerate() {
            for slot in 0..used {
                let r = Route::of(&route[row * 4 * used..], slot, used);
                let bias = &bias[r.expert * m..][..m];
                out[slot * m..][..m].iter_mut().zip(bias).for_each(|(o, b)| *o += b);
            }
        }
        drop(bias);
        self.values[b.out.0] = out;
    }
}
