//! A scale and an offset: `x ≈ d * q + m` with `q` in `0..=top`.

use super::{add, clamp_branchless, each, inverse, lanes, round, to_half, total, LANES};

/// Candidates for the number of steps the range is cut into.
const CANDIDATES: i32 = 10;
/// Rounds of new codes and new least squares from the best of them.
const REFITS: usize = 4;

/// Scale and offset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Affine {
    /// Scale, never negative.
    pub d: f32,
    /// Offset.
    pub m: f32,
}

impl Affine {
    /// The code of a weight.
    #[inline]
    pub fn code(&self, x: f32, top: f32) -> f32 {
        let inverse = inverse(self.d);
        round(clamp_branchless((x - self.m) * inverse, 0.0, top))
    }

    /// The codes of weights.
    pub fn codes(&self, x: &[f32], top: f32) -> Vec<u8> {
        x.iter().map(|x| self.code(*x, top) as u8).collect()
    }

    /// Weighted squared error.
    pub fn error(&self, x: &[f32], weight: &[f32], top: f32) -> f32 {
        let inverse = inverse(self.d);
        let mut sums = [0f32; LANES];
        lanes(x, weight, |x, w| {
            let q = each(|i| round(clamp_branchless((x[i] - self.m) * inverse, 0.0, top)));
            let e = each(|i| x[i] - (self.d * q[i] + self.m));
            add(&mut sums, |i| w[i] * e[i] * e[i]);
        });
        total(&sums)
    }
}

/// Sums that no code changes: `Σ w`, `Σ w x`, `Σ w x²`.
struct Moments {
    w1: f32,
    wx: f32,
    wxx: f32,
}

/// Least squares for fixed codes, with the error left; `m <= 0` if `floor`.
fn refit(x: &[f32], weight: &[f32], moments: &Moments, top: f32, guess: Affine, floor: bool) -> Option<(f32, Affine)> {
    let inverse = 1.0 / guess.d;
    let mut sums = [[0f32; LANES]; 3];
    lanes(x, weight, |x, w| {
        let q = each(|i| round(clamp_branchless((x[i] - guess.m) * inverse, 0.0, top)));
        let a = each(|i| w[i] * q[i]);
        add(&mut sums[0], |i| a[i]);
        add(&mut sums[1], |i| a[i] * q[i]);
        add(&mut sums[2], |i| a[i] * x[i]);
    });
    let [wq, wqq, wxq] = sums.each_ref().map(total);
    let Moments { w1, wx, wxx } = *moments;
    let det = w1 * wqq - wq * wq;
    let mut fit = guess;
    if det > 0.0 {
        fit = Affine { d: (w1 * wxq - wx * wq) / det, m: (wqq * wx - wq * wxq) / det };
    }
    if floor && fit.m > 0.0 || det <= 0.0 {
        fit = Affine { d: if wqq > 0.0 { wxq / wqq } else { 0.0 }, m: 0.0 };
    }
    let left = wxx + fit.d * fit.d * wqq + fit.m * fit.m * w1 - 2.0 * (fit.d * wxq + fit.m * wx - fit.d * fit.m * wq);
    (fit.d > 0.0).then_some((left, fit))
}

/// The best pair found, before it is rounded to how it is stored; with `floor` the offset is at most 0.
pub fn fit(x: &[f32], weight: &[f32], top: f32, floor: bool) -> Affine {
    let none_counts = weight.iter().all(|w| *w == 0.0);
    let counting = || x.iter().zip(weight).filter(|(_, w)| none_counts || **w > 0.0).map(|(x, _)| *x);
    let (high, low) = (counting().fold(f32::NEG_INFINITY, f32::max), counting().fold(f32::INFINITY, f32::min));
    let low = if floor { low.min(0.0) } else { low };
    if high - low < 1e-30 {
        return Affine { d: 0.0, m: low };
    }
    let mut best = (f32::INFINITY, Affine { d: (high - low) / top, m: low });
    let mut sums = [[0f32; LANES]; 3];
    lanes(x, weight, |x, w| {
        add(&mut sums[0], |i| w[i]);
        add(&mut sums[1], |i| w[i] * x[i]);
        add(&mut sums[2], |i| w[i] * x[i] * x[i]);
    });
    let [w1, wx, wxx] = sums.each_ref().map(total);
    let moments = Moments { w1, wx, wxx };
    for candidate in 0..=CANDIDATES {
        let steps = top - 0.9 + if top > 7.0 { 0.2 } else { 0.12 } * candidate as f32;
        let guess = Affine { d: (high - low) / steps, m: low };
        if let Some(found) = refit(x, weight, &moments, top, guess, floor).filter(|f| f.0 < best.0) {
            best = found;
        }
    }
    for _ in 0..REFITS {
        let Some(found) = refit(x, weight, &moments, top, best.1, floor).filter(|f| f.0 < best.0) else { break };
        best = found;
    }
    best.1
}

/// [`fit`] with both rounded to f16.
pub fn fit_half(x: &[f32], weight: &[f32], top: f32) -> Affine {
    let free = fit(x, weight, top, false);
    let d = to_half(free.d);
    // The offset makes good what rounding the scale did.
    let (mut sum, mut all) = (0.0, 0.0);
    for (x, w) in x.iter().zip(weight) {
        sum += w * (x - d * Affine { d, m: free.m }.code(*x, top));
        all += w;
    }
    let shifted = Affine { d, m: to_half(if all > 0.0 { sum / all } else { free.m }) };
    let plain = Affine { d, m: to_half(free.m) };
    if shifted.error(x, weight, top) <= plain.error(x, weight, top) {
        shifted
    } else {
        plain
    }
}
