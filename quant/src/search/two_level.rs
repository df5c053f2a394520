//! Blocks of sub-blocks: each sub-block's scale (and minimum) is a small integer times one of the block's halves.

use super::affine::{self, Affine};
use super::{error, inverse, round, scale, to_half, Lattice};

/// Most sub-blocks of a block.
pub const SUBS: usize = 16;
/// Rounds of choosing integers and refitting the block's halves.
const ROUNDS: usize = 3;

/// `x ≈ d * scales[j] * q - dmin * mins[j]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AffineBlock {
    /// The factor of the scales, f16-exact.
    pub d: f32,
    /// The factor of the minima, f16-exact.
    pub dmin: f32,
    /// Per sub-block.
    pub scales: [u8; SUBS],
    /// Per sub-block.
    pub mins: [u8; SUBS],
}

impl AffineBlock {
    /// Scale and offset of a sub-block.
    pub fn sub(&self, j: usize) -> Affine {
        Affine { d: self.d * f32::from(self.scales[j]), m: -(self.dmin * f32::from(self.mins[j])) }
    }

    /// The codes of a block's weights.
    pub fn codes(&self, x: &[f32], sub: usize, top: f32) -> Vec<u8> {
        x.chunks_exact(sub).enumerate().flat_map(|(j, x)| self.sub(j).codes(x, top)).collect()
    }
}

/// Fits a block of sub-blocks of `sub` weights with codes `0..=top` and integers `0..=most`.
pub fn affine(x: &[f32], weight: &[f32], sub: usize, top: f32, most: f32) -> AffineBlock {
    let subs = x.len() / sub;
    let part = |j: usize| (&x[j * sub..][..sub], &weight[j * sub..][..sub]);
    let mut free = [Affine::default(); SUBS];
    for (j, free) in free.iter_mut().enumerate().take(subs) {
        *free = affine::fit(part(j).0, part(j).1, top, true);
    }
    let largest = |f: fn(&Affine) -> f32| free[..subs].iter().map(f).fold(0f32, f32::max);
    let (mut d, mut dmin) = (largest(|a| a.d) / most, largest(|a| -a.m) / most);
    let mut best = (f32::INFINITY, AffineBlock::default());
    for _ in 0..ROUNDS {
        let mut block = AffineBlock { d: to_half(d), dmin: to_half(dmin), ..AffineBlock::default() };
        let mut total = 0.0;
        for (j, free) in free[..subs].iter().enumerate() {
            let near = |x: f32, unit: f32| if unit > 0.0 { round((x / unit).clamp(0.0, most)) } else { 0.0 };
            let (s0, m0) = (near(free.d, block.d), near(-free.m, block.dmin));
            let mut least = f32::INFINITY;
            for s in [s0, s0 - 1.0, s0 + 1.0] {
                for m in [m0, m0 - 1.0, m0 + 1.0] {
                    if s < 0.0 || m < 0.0 || s > most || m > most {
                        continue;
                    }
                    let candidate = Affine { d: block.d * s, m: -(block.dmin * m) };
                    let e = candidate.error(part(j).0, part(j).1, top);
                    if e < least {
                        least = e;
                        (block.scales[j], block.mins[j]) = (s as u8, m as u8);
                    }
                }
            }
            total += least;
        }
        if total >= best.0 {
            break;
        }
        best = (total, block);
        // Both halves at once by least squares, the integers and codes held.
        let [mut aa, mut ab, mut bb, mut ax, mut bx] = [0f32; 5];
        for j in 0..subs {
            let (fit, (x, weight)) = (block.sub(j), part(j));
            let (s, b) = (f32::from(block.scales[j]), -f32::from(block.mins[j]));
            for (x, w) in x.iter().zip(weight) {
                let a = s * fit.code(*x, top);
                aa += w * a * a;
                ab += w * a * b;
                bb += w * b * b;
                ax += w * a * x;
                bx += w * b * x;
            }
        }
        let det = aa * bb - ab * ab;
        if det > 1e-6 * aa * bb {
            (d, dmin) = ((ax * bb - bx * ab) / det, (bx * aa - ax * ab) / det);
        } else if aa > 0.0 {
            d = ax / aa;
        }
        if !(d > 0.0 && dmin >= 0.0) {
            break;
        }
    }
    best.1
}

/// `x ≈ d * scales[j] * l` with `l` from a lattice.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScaleBlock {
    /// The factor of the scales, f16-exact.
    pub d: f32,
    /// Per sub-block.
    pub scales: [i32; SUBS],
}

impl ScaleBlock {
    /// Scale of a sub-block.
    pub fn sub(&self, j: usize) -> f32 {
        self.d * self.scales[j] as f32
    }
}

/// Fits a block of sub-blocks of `sub` weights with integers `low..=high`; `low` is the larger end.
pub fn scales<L: Lattice>(x: &[f32], weight: &[f32], sub: usize, lattice: L, low: f32, high: f32) -> ScaleBlock {
    let subs = x.len() / sub;
    let part = |j: usize| (&x[j * sub..][..sub], &weight[j * sub..][..sub]);
    let mut free = [0f32; SUBS];
    for (j, free) in free.iter_mut().enumerate().take(subs) {
        *free = scale::fit(part(j).0, part(j).1, lattice);
    }
    let largest = free.iter().copied().fold(0f32, |a, s| if s.abs() > a.abs() { s } else { a });
    let mut best = (f32::INFINITY, ScaleBlock::default());
    for start in [largest / low, largest / high] {
        let mut d = start;
        for _ in 0..ROUNDS {
            let mut block = ScaleBlock { d: to_half(d), ..ScaleBlock::default() };
            let (mut total, mut lx, mut ll) = (0.0, 0.0, 0.0);
            for (j, free) in free[..subs].iter().enumerate() {
                let s0 = round((free * inverse(block.d)).clamp(low, high));
                let mut least = f32::INFINITY;
                for s in [s0, s0 - 1.0, s0 + 1.0] {
                    let e = error(part(j).0, part(j).1, lattice, block.d * s);
                    if e < least && (low..=high).contains(&s) {
                        least = e;
                        block.scales[j] = s as i32;
                    }
                }
                total += least;
                let (step, s) = (block.sub(j), block.scales[j] as f32);
                let inverse = inverse(step);
                for (x, w) in part(j).0.iter().zip(part(j).1) {
                    let l = s * lattice.nearest(x * inverse);
                    lx += w * l * x;
                    ll += w * l * l;
                }
            }
            if total >= best.0 {
                break;
            }
            best = (total, block);
            if ll <= 0.0 {
                break;
            }
            d = lx / ll;
        }
    }
    best.1
}
