//! Maps, norms, rotations, positions, products per head.

use super::Env;
use crate::cpu::ops;
use pumex_plan::{
    Act, AdapterScales, Arg, ById, Dot, Gate, HeadMatMul, Join, Map, NormKind, Normalize, Rotate, Rows, TakeVectors,
    Temperature, Val, Weight,
};
use std::borrow::Cow;

/// `1 / (1 + e^-x)`
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// A function of one number.
pub fn act(act: Act, x: f32) -> f32 {
    match act {
        Act::Same => x,
        Act::Silu => ops::silu(x),
        Act::Gelu => 0.5 * x * (1.0 + (0.797_884_6 * x * (1.0 + 0.044_715 * x * x)).tanh()),
        Act::GeluErf => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        Act::GeluQuick => x * sigmoid(1.702 * x),
        Act::Relu => x.max(0.0),
        Act::ReluSquared => x.max(0.0) * x.max(0.0),
        Act::Sigmoid => sigmoid(x),
        Act::Tanh => x.tanh(),
        Act::Softplus => softplus(x),
        Act::Exp => x.exp(),
        Act::Inverse => 1.0 / x,
        Act::Sqrt => x.sqrt(),
        Act::Clamp(low, high) => x.clamp(low, high),
        Act::SoftCap(cap) => cap * (x / cap).tanh(),
        Act::SiluClamped(alpha, limit) => x.min(limit) * sigmoid(alpha * x.min(limit)),
        Act::Situ(cap) => cap * (x / cap).tanh() * sigmoid(x),
        Act::Xielu([negative, positive, beta, eps]) => {
            let (n, p) = (beta + softplus(negative), softplus(positive));
            if x > 0.0 {
                p * x * x + beta * x
            } else {
                n * (x.min(eps).exp_m1() - x) + beta * x
            }
        }
    }
}

/// What a gate lets through.
pub fn apply_gate(by: Gate, gate: f32, up: f32) -> f32 {
    let up = by.limit.map_or(up, |limit| up.clamp(-limit, limit));
    act(by.act, gate) * (up + by.plus)
}

/// `ln(1 + e^x)`, `x` itself where that is all.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 {
        x
    } else {
        x.exp().ln_1p()
    }
}

/// The factor of a position.
pub fn temperature(t: Temperature, pos: u32) -> f32 {
    1.0 + t.scale * (1.0 + ((pos as f32 + t.offset) / t.floor as f32).floor()).ln()
}

/// An operand with its weights at hand.
enum BoundOperand<'a> {
    Arg(Arg),
    Floats(Cow<'a, [f32]>, bool),
}

impl Env<'_> {
    fn operand(&self, arg: Arg) -> BoundOperand<'_> {
        match arg {
            Arg::Weight(w) => BoundOperand::Floats(self.floats.vector(w), false),
            Arg::GroupWeight(w) => BoundOperand::Floats(self.floats.vector(w), true),
            Arg::Table(t) => BoundOperand::Floats(Cow::Borrowed(&self.plan.numbers[t]), false),
            _ => BoundOperand::Arg(arg),
        }
    }

    /// The numbers of an operand in a group of a row, `[len]` or one for all.
    fn numbers<'a>(&'a self, of: &'a BoundOperand<'a>, row: usize, g: usize, len: usize) -> Cow<'a, [f32]> {
        match of {
            BoundOperand::Arg(Arg::Cols(c)) => Cow::Borrowed(self.cols(*c, row, g, len)),
            BoundOperand::Arg(Arg::PerGroup(c)) => Cow::Borrowed(self.cols(*c, row, g, 1)),
            BoundOperand::Arg(Arg::Number(x)) => Cow::Borrowed(std::slice::from_ref(x)),
            BoundOperand::Floats(w, true) => Cow::Borrowed(&w[g..=g]),
            BoundOperand::Floats(w, false) => Cow::Borrowed(&w[g * len % w.len()..][..len]),
            BoundOperand::Arg(Arg::Weight(_) | Arg::GroupWeight(_) | Arg::Table(_)) => Cow::Borrowed(&[]),
        }
    }

    pub(super) fn map(&mut self, m: &Map) {
        let value = |arg: &BoundOperand<'_>, i: usize, numbers: &[f32]| match arg {
            _ if numbers.len() == 1 => numbers[0],
            _ => numbers[i],
        };
        let (rows, groups, len) = (self.rows_of(m.out.val), m.groups, m.len);
        let mut result = self.spare.take(rows * groups * len);
        let (a, b) = (self.operand(m.a), self.operand(m.b));
        (self.each)(&mut result, groups * len, &|row, out| {
            for (g, out) in out.chunks_exact_mut(len).enumerate() {
                let (xs, ys) = (self.numbers(&a, row, g, len), self.numbers(&b, row, g, len));
                for (i, out) in out.iter_mut().enumerate() {
                    let (x, y) = (m.scale * act(m.act, value(&a, i, &xs)), value(&b, i, &ys));
                    *out = match m.join {
                        Join::Add => x + y,
                        Join::Mul => x * y,
                    };
                }
            }
        });
        drop((a, b));
        self.place(m.out, groups, len, result);
    }

    pub(super) fn dot(&mut self, d: &Dot) {
        let (rows, groups) = (self.rows_of(d.out.val), d.groups);
        let mut result = self.spare.take(rows * groups);
        let (a, b) = (self.operand(d.a), self.operand(d.b));
        (self.each)(&mut result, groups, &|row, out| {
            for (g, out) in out.iter_mut().enumerate() {
                let (xs, ys) = (self.numbers(&a, row, g, d.len), self.numbers(&b, row, g, d.len));
                let sum: f64 =
                    (0..d.len).map(|i| f64::from(xs[i.min(xs.len() - 1)]) * f64::from(ys[i.min(ys.len() - 1)])).sum();
                *out = act(d.act, d.scale * sum as f32);
            }
        });
        drop((a, b));
        self.place(d.out, groups, 1, result);
    }

    pub(super) fn normalize(&mut self, n: &Normalize) {
        let gathers = self.plan.values[n.out.val.0].rows == Rows::Output;
        let gathers = gathers && self.plan.values[n.x.val.0].rows == Rows::Step;
        let floats = self.floats;
        let vector = |w: Option<Weight>| w.map(|w| floats.vector(w));
        let (weight, bias) = (vector(n.weight), vector(n.bias));
        self.write(n.out, n.groups, n.len, |env, row, out| {
            let row = if gathers { env.wanted[row] } else { row };
            for (g, out) in out.chunks_exact_mut(n.len).enumerate() {
                let gates = n.gate.map(|by| (by, env.cols(by.cols, row, g, n.len)));
                out.copy_from_slice(env.cols(n.x, row, g, n.len));
                let gate = |out: &mut [f32], first: bool| {
                    if let Some((by, z)) = gates.filter(|(by, _)| by.first == first) {
                        out.iter_mut().zip(z).for_each(|(o, z)| *o *= act(by.act, *z));
                    }
                };
                gate(out, true);
                normalize_in_place(n.kind, n.eps, out);
                let at = |w: &[f32]| g * n.len % w.len();
                if let Some(w) = &weight {
                    out.iter_mut().zip(&w[at(w)..]).for_each(|(o, w)| *o *= w);
                }
                if let Some(b) = &bias {
                    out.iter_mut().zip(&b[at(b)..]).for_each(|(o, b)| *o += b);
                }
                gate(out, false);
            }
        });
    }

    pub(super) fn rotate(&mut self, r: &Rotate) {
        let (rope, plan) = (r.rope, self.plan);
        let inv_freq = plan.ropes.get(rope.table).map_or(&[][..], |table| table);
        let pairs = inv_freq.len().min(rope.dims / 2);
        // Sines of each row, then its cosines.
        let mut turns = self.spare.take(2 * pairs * self.rows.len());
        for (own, turns) in self.books.positions().iter().zip(turns.chunks_exact_mut((2 * pairs).max(1))) {
            let (sines, cosines) = turns.split_at_mut(pairs);
            for (pair, ((sin, cos), f)) in sines.iter_mut().zip(cosines).zip(inv_freq).enumerate() {
                let pos = own[plan.stream(pair)] / r.every * r.every;
                (*sin, *cos) = (pos as f32 * if r.back { -f } else { *f }).sin_cos();
            }
        }
        let len = r.len.max(rope.dims);
        self.write(r.x, r.groups, len, |env, row, out| {
            let pos = env.books.positions()[row][0] / r.every * r.every;
            let factor = r.temperature.map_or(1.0, |t| temperature(t, pos));
            let (sines, cosines) = turns[2 * pairs * row..][..2 * pairs].split_at(pairs);
            for (g, out) in out.chunks_exact_mut(len).enumerate() {
                out.copy_from_slice(env.cols(r.from.unwrap_or(r.x), row, g, len));
                if rope.dims > 0 {
                    ops::turn(out, rope, sines.iter().copied().zip(cosines.iter().copied()));
                    out[..rope.dims].iter_mut().for_each(|x| *x *= r.magnitude);
                }
                out[..r.len].iter_mut().for_each(|x| *x *= factor);
            }
        });
        self.spare.give(turns);
    }

    pub(super) fn positions(&mut self, weight: Weight, out: Val) {
        let (dim, floats) = (self.width(out), self.floats);
        let table = floats.vector(weight);
        let cols = pumex_plan::Cols { val: out, at: 0, stride: dim };
        self.write(cols, 1, dim, |env, row, out| {
            let at = env.books.positions()[row][0] as usize * dim % table.len();
            let x = env.cols(cols, row, 0, dim);
            out.iter_mut().zip(x.iter().zip(&table[at..])).for_each(|(o, (x, w))| *o = x + w);
        });
    }

    pub(super) fn by_id(&mut self, b: &ById) {
        let list = &self.plan.numbers[b.list];
        let cols = pumex_plan::Cols { val: b.out, at: 0, stride: b.len };
        self.write(cols, 1, b.len, |env, row, out| {
            out.copy_from_slice(b.of(list, env.books.id(&env.rows[row])));
        });
    }

    pub(super) fn take_vectors(&mut self, t: &TakeVectors) {
        let dim = self.width(t.out);
        for (row, out) in self.rows.iter().zip(self.values[t.out.0].chunks_exact_mut(dim)) {
            let Some(part) = row.medium.as_ref().and_then(|m| m.vector().get(t.part * dim..)?.get(..dim)) else {
                continue;
            };
            match t.add {
                true => out.iter_mut().zip(part).for_each(|(out, x)| *out += x),
                false => out.copy_from_slice(part),
            }
        }
    }

    pub(super) fn scale_adapters(&mut self, s: &AdapterScales) {
        let (width, list) = (self.width(s.out), &self.plan.numbers[s.list]);
        let output = self.plan.values[s.out.0].rows == Rows::Output;
        for (i, out) in self.values[s.out.0].chunks_exact_mut(width).enumerate() {
            let scales = self.books.adapter_scales(if output { self.wanted[i] } else { i });
            for (x, adapter) in out.iter_mut().zip(list.iter().cycle()) {
                // An adapter that does not count does not, whatever its columns are.
                let scale = scales[*adapter as usize];
                *x = if scale == 0.0 { 0.0 } else { *x * scale };
            }
        }
    }

    pub(super) fn head_matmul(&mut self, h: &HeadMatMul) {
        let info = &self.plan.weights[h.weight.0];
        let (m, k) = (info.rows / h.heads, info.cols);
        // A buffer row per head of a row, so that a single row keeps all threads busy.
        let rows = self.rows_of(h.out.val);
        let mut result = self.spare.take(rows * h.heads * m);
        (self.each)(&mut result, m, &|i, out| {
            let (row, head) = (i / h.heads, i % h.heads);
            self.floats.times(h.weight, head * m, self.cols(h.x, row, head, k), out);
        });
        self.place(h.out, h.heads, m, result);
    }
}

/// A norm without factors.
pub(super) fn normalize_in_place(kind: NormKind, eps: f32, x: &mut [f32]) {
    let n = x.len() as f64;
    let mean = if kind == NormKind::Layer { x.iter().map(|v| f64::from(*v)).sum::<f64>() / n } else { 0.0 };
    let squares = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>();
    let scale = match kind {
        NormKind::Rms | NormKind::Layer => 1.0 / ((squares / n) as f32 + eps).sqrt(),
        NormKind::L2 => 1.0 / (squares.sqrt() as f32).max(eps),
        NormKind::Unit => 1.0 / (squares as f32 + eps).sqrt(),
    };
    x.iter_mut().for_each(|x| *x = (*x - mean as f32) * scale);
}
