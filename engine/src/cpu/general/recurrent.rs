//! Convolutions over time, shifts and scans: the rows of a sequence one after the other.

use super::map::{act, normalize_in_place, softplus};
use super::Env;
use crate::cpu::ops::silu;
use pumex_plan::{Act, Cols, Conv, NormKind, Scan, ScanKind, Shift};

impl Env<'_> {
    pub(super) fn conv(&mut self, c: &Conv) {
        let (n, floats) = (c.channels, self.floats);
        let (weight, bias) = (floats.vector(c.weight), c.bias.map(|b| floats.vector(b)));
        let k = weight.len() / n;
        let (mut result, mut seen) = (self.spare.take(self.rows.len() * n), self.spare.take(0));
        let spans = self.spans();
        for span in &spans {
            let state = &mut self.states.of(span.seq, c.layer)[c.at..][..(k - 1) * n];
            if span.fresh {
                state.fill(0.0);
            }
            seen.clear(); // [k - 1 + rows, n]
            seen.extend_from_slice(state);
            for row in span.from..span.from + span.rows {
                let at = row * self.plan.values[c.x.val.0].width + c.x.at;
                seen.extend_from_slice(&self.values[c.x.val.0][at..][..n]);
            }
            state.copy_from_slice(&seen[span.rows * n..]);
            (self.each)(&mut result[span.from * n..][..span.rows * n], n, &|row, out| {
                for (channel, out) in out.iter_mut().enumerate() {
                    let taps = &weight[channel * k..][..k];
                    let sum: f32 = taps.iter().enumerate().map(|(j, w)| w * seen[(row + j) * n + channel]).sum();
                    let sum = sum + bias.as_ref().map_or(0.0, |b| b[channel]);
                    *out = if c.silu { silu(sum) } else { sum };
                }
                if let Some(norm) = c.norm {
                    let groups = out[..norm.groups * norm.len].chunks_exact_mut(norm.len);
                    let kind = if norm.least { NormKind::L2 } else { NormKind::Unit };
                    groups.for_each(|group| normalize_in_place(kind, norm.eps, group));
                }
            });
        }
        self.spare.spans = spans;
        self.spare.give(seen);
        self.place(c.out, 1, n, result);
    }

    pub(super) fn shift(&mut self, s: &Shift) {
        let dim = self.width(s.x);
        let mut result = self.spare.take(0);
        let spans = self.spans();
        for span in &spans {
            let state = &mut self.states.of(span.seq, s.layer)[s.at..][..dim];
            if span.fresh {
                state.fill(0.0);
            }
            let x = &self.values[s.x.0][span.from * dim..][..span.rows * dim];
            result.extend_from_slice(state);
            result.extend_from_slice(&x[..(span.rows - 1) * dim]);
            state.copy_from_slice(&x[(span.rows - 1) * dim..]);
        }
        self.spare.spans = spans;
        self.replace(s.out, result);
    }

    pub(super) fn scan(&mut self, s: &Scan) {
        let (heads, vd, kd) = (s.heads, s.v_dim, s.k_dim);
        let floats = self.floats;
        let [factor, soft, skip] = [s.factor, s.soft, s.skip].map(|w| w.map(|w| floats.vector(w)));
        let mut result = self.spare.take(self.rows.len() * heads * vd);
        let spans = self.spans();
        for span in &spans {
            let state = &mut self.states.of(span.seq, s.layer)[s.at..][..heads * vd * kd];
            if span.fresh {
                state.fill(0.0);
            }
            // Of each head: its state, what that fades by, its results [rows, v_dim].
            let len = (vd + 1) * kd + span.rows * vd;
            let mut work = self.spare.take(heads * len);
            let state = &self.states.of(span.seq, s.layer)[s.at..][..heads * vd * kd];
            for (work, state) in work.chunks_exact_mut(len).zip(state.chunks_exact(vd * kd)) {
                work[..vd * kd].copy_from_slice(state);
            }
            let of = ScanHead { env: self, s, factor: factor.as_deref(), soft: soft.as_deref(), skip: skip.as_deref() };
            (self.each)(&mut work, len, &|head, work| {
                let (state, out) = work.split_at_mut(vd * kd);
                let (fades, out) = out.split_at_mut(kd);
                for (i, out) in out.chunks_exact_mut(vd).enumerate() {
                    of.step(head, span.from + i, state, fades, out);
                }
            });
            let state = &mut self.states.of(span.seq, s.layer)[s.at..][..heads * vd * kd];
            for (head, (work, state)) in work.chunks_exact(len).zip(state.chunks_exact_mut(vd * kd)).enumerate() {
                state.copy_from_slice(&work[..vd * kd]);
                for (i, y) in work[(vd + 1) * kd..].chunks_exact(vd).enumerate() {
                    result[((span.from + i) * heads + head) * vd..][..vd].copy_from_slice(y);
                }
            }
            self.spare.give(work);
        }
        self.spare.spans = spans;
        self.place(s.out, heads, vd, result);
    }
}

struct ScanHead<'a> {
    env: &'a Env<'a>,
    s: &'a Scan,
    factor: Option<&'a [f32]>,
    soft: Option<&'a [f32]>,
    skip: Option<&'a [f32]>,
}

/// How much a row writes: see [`Scan::soft`].
pub fn soft_rate(kind: ScanKind, rate: f32, soft: Option<f32>) -> f32 {
    match (kind, soft) {
        (ScanKind::Mamba, Some(soft)) => softplus(rate + soft),
        (_, Some(_)) => act(Act::Sigmoid, rate),
        (_, None) => rate,
    }
}

/// How the state fades: see [`Scan::soft`].
pub fn soft_decay(kind: ScanKind, decay: f32, soft: Option<f32>, factor: f32) -> f32 {
    match (kind, soft) {
        (ScanKind::Delta, Some(soft)) => softplus(decay + soft) * factor,
        _ => decay,
    }
}

impl ScanHead<'_> {
    fn cols(&self, c: Option<Cols>, row: usize, g: usize, len: usize) -> &[f32] {
        c.map_or(&[], |c| self.env.cols(c, row, g, len))
    }

    /// One row of a head: `state` is `[v_dim, k_dim]`, `out` `[v_dim]`; `fades` is room for `k_dim` floats.
    fn step(&self, head: usize, row: usize, state: &mut [f32], fades: &mut [f32], out: &mut [f32]) {
        let (s, kd, vd) = (self.s, self.s.k_dim, self.s.v_dim);
        let group = s.group(head);
        let (q, k) = (self.env.cols(s.q, row, group, kd), self.env.cols(s.k, row, group, kd));
        let v = self.env.cols(s.v, row, head, vd);
        let rate = self.cols(s.rate, row, head, 1).first().copied().unwrap_or(1.0);
        let decay = self.cols(s.decay, row, head, if s.decay_per_column { kd } else { 1 });
        let factor = |i: usize| self.factor.map_or(0.0, |f| f[if f.len() > s.heads { head * kd + i } else { head }]);
        let soft = self.soft.map(|soft| soft[head]);
        let rate = soft_rate(s.kind, rate, soft);
        let decay = |i: usize| soft_decay(s.kind, decay[if s.decay_per_column { i } else { 0 }], soft, factor(i));
        let skip = self.skip.map_or(0.0, |skip| skip[head]);
        let dot = |a: &[f32], b: &[f32]| crate::cpu::ops::dot(a, b);
        for (i, fade) in fades.iter_mut().enumerate() {
            *fade = match s.kind {
                ScanKind::Mamba => (rate * factor(i)).exp(),
                ScanKind::Delta => decay(i).exp(),
                ScanKind::Wkv6 | ScanKind::Gla | ScanKind::Wkv7 => decay(i),
            };
        }
        let (a, b) = (self.cols(s.a, row, head, kd), self.cols(s.b, row, head, kd));
        for ((state, out), v) in state.chunks_exact_mut(kd).zip(out).zip(v) {
            let early = match s.kind {
                ScanKind::Wkv6 => dot(state, q) + v * (0..kd).map(|i| factor(i) * k[i] * q[i]).sum::<f32>(),
                _ => 0.0,
            };
            let along = if s.kind == ScanKind::Wkv7 { dot(state, a) } else { 0.0 };
            state.iter_mut().zip(&*fades).for_each(|(s, f)| *s *= f);
            let add = match s.kind {
                ScanKind::Mamba => rate * v,
                ScanKind::Delta => rate * (v - dot(state, k)),
                ScanKind::Wkv6 | ScanKind::Gla | ScanKind::Wkv7 => *v,
            };
            state.iter_mut().zip(k).for_each(|(s, k)| *s += add * k);
            if s.kind == ScanKind::Wkv7 {
                state.iter_mut().zip(b).for_each(|(s, b)| *s += along * b);
            }
            *out = s.scale * if s.kind == ScanKind::Wkv6 { early } else { dot(state, q) } + skip * v;
        }
    }
}
