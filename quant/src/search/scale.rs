//! One scale: `x ≈ d * l` with `l` from a lattice.

use super::{add, each, error, lanes, to_half, total, Lattice, LANES};

/// Candidates per end of the lattice.
const CANDIDATES: i32 = 19;

/// Where candidates lie: where the largest weight may land, as shares of the lattice's end. Coarse lattices gain by
/// cutting off large weights, fine ones have little to choose.
fn range(end: f32) -> (f32, f32) {
    match end.abs() {
        ..3.0 => (0.8, 4.0),
        ..6.0 => (0.7, 1.6),
        ..16.0 => (0.75, 1.25),
        ..100.0 => (0.93, 1.07),
        _ => (0.75, 1.25),
    }
}

/// The weight of largest magnitude among those that count, with its sign; among all if none does.
pub fn largest(x: &[f32], weight: &[f32]) -> f32 {
    let larger = |a: f32, x: f32| if x.abs() > a.abs() { x } else { a };
    let counting = x.iter().zip(weight).filter(|(_, w)| **w > 0.0).fold(0f32, |a, (x, _)| larger(a, *x));
    if counting == 0.0 && weight.iter().all(|w| *w == 0.0) {
        return x.iter().fold(0f32, |a, x| larger(a, *x));
    }
    counting
}

/// Sums that give the best scale for fixed codes: `Σ w x l` and `Σ w l²`.
fn sums<L: Lattice>(x: &[f32], weight: &[f32], lattice: L, inverse: f32) -> (f32, f32) {
    let mut sums = [[0f32; LANES]; 2];
    lanes(x, weight, |x, w| {
        let l = lattice.nearest_each(each(|i| x[i] * inverse));
        add(&mut sums[0], |i| w[i] * x[i] * l[i]);
        add(&mut sums[1], |i| w[i] * l[i] * l[i]);
    });
    (total(&sums[0]), total(&sums[1]))
}

/// The scale with the least weighted error found, before it is rounded to how it is stored; 0 for all-zero weights.
pub fn fit<L: Lattice>(x: &[f32], weight: &[f32], lattice: L) -> f32 {
    let largest = largest(x, weight);
    if largest.abs() < 1e-30 {
        return 0.0;
    }
    let (low, high) = lattice.ends();
    // A lattice that is its own mirror needs no negative scales.
    let mirrored = low == -high;
    let largest = if mirrored { largest.abs() } else { largest };
    let mut best = (0.0, 0.0); // what the codes explain of Σ w x², and their scale
    for end in [high, low].into_iter().take(if mirrored { 1 } else { 2 }) {
        let (from, to) = range(end);
        for candidate in 0..CANDIDATES {
            let inverse = end / largest * (from + (to - from) * candidate as f32 / (CANDIDATES - 1) as f32);
            let (xl, ll) = sums(x, weight, lattice, inverse);
            if ll > 0.0 && xl * xl > best.0 * ll {
                best = (xl * xl / ll, xl / ll);
            }
        }
    }
    for _ in 0..3 {
        if best.1 == 0.0 {
            break;
        }
        let (xl, ll) = sums(x, weight, lattice, 1.0 / best.1);
        if ll <= 0.0 || xl * xl <= best.0 * ll {
            break;
        }
        best = (xl * xl / ll, xl / ll);
    }
    if best.1 == 0.0 || !best.1.is_finite() {
        return largest / high.max(-low); // nothing counts, or squares overflow: keeping the range is as good as any
    }
    best.1
}

/// [`fit`], rounded to f16 up or down, whichever loses less.
pub fn fit_half<L: Lattice>(x: &[f32], weight: &[f32], lattice: L) -> f32 {
    let nearest = half::f16::from_f32(to_half(fit(x, weight, lattice)));
    let around = [nearest.to_bits().wrapping_sub(1), nearest.to_bits(), nearest.to_bits() + 1];
    let around = around.map(|bits| half::f16::from_bits(bits).to_f32());
    let mut best = (f32::INFINITY, nearest.to_f32());
    for d in around.into_iter().filter(|d| d.is_finite()) {
        let e = error(x, weight, lattice, d);
        if e < best.0 {
            best = (e, d);
        }
    }
    best.1
}
