//! Groups of weights out of a grid: `x ≈ ±d * unit * (2 * scales[j] + 1) * entry`.
//!
//! For a group and an entry the error is `Σ w x² - 2 s b + s² c` with `b = Σ w x v` and `c = Σ w v²`, so `b` and `c` of every
//! entry are worked out once, and every scale is then tried against all entries: the search over entries is exact.

use super::{scale, to_half};
use crate::grid::Grid;
use crate::iq1_s::DELTA;

/// Weights of a block.
const BLOCK: usize = 256;
/// Rounds of choosing integers and refitting the block's half.
const ROUNDS: usize = 3;

/// Where the signs of the weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// A bit per weight.
    Free,
    /// Seven bits per eight weights; the number of minus signs is even.
    Even,
    /// In the grid, which is shifted up or down per group.
    ShiftPerGroup,
    /// In the grid, which is shifted up or down per sub-block.
    ShiftPerSub,
}

/// A grid and how a format uses it.
#[derive(Debug)]
pub struct Book {
    /// Values `[width][entries]`; shifted grids come twice, shifted up and then down.
    values: Vec<f32>,
    entries: usize,
    width: usize,
    signs: Signs,
    sub: usize,
    unit: f32,
    top: i32,
    largest: f32,
}

/// A coded block.
#[derive(Clone, Debug)]
pub struct Coded {
    /// Of the scales, f16-exact.
    pub d: f32,
    /// Per sub-block.
    pub scales: [u8; 16],
    /// Per group: grid index, plus the grid's length where it is shifted down.
    pub entries: [u16; 64],
    /// Minus signs per eight weights.
    pub minus: [u8; 32],
}

impl Book {
    /// A format's use of a grid: sub-blocks of `sub` weights with scales `0..=top`.
    pub fn new(grid: &Grid, signs: Signs, sub: usize, unit: f32, top: i32) -> Book {
        let shifts: &[f32] = match signs {
            Signs::Free | Signs::Even => &[0.0],
            Signs::ShiftPerGroup | Signs::ShiftPerSub => &[DELTA, -DELTA],
        };
        let entries = grid.codes.len() * shifts.len();
        let value = |j: usize, e: usize| grid.value(e % grid.codes.len(), j) + shifts[e / grid.codes.len()];
        let values: Vec<f32> = (0..grid.width).flat_map(|j| (0..entries).map(move |e| value(j, e))).collect();
        let largest = values.iter().copied().fold(0f32, f32::max);
        Book { values, entries, width: grid.width, signs, sub, unit, top, largest }
    }

    /// Magnitudes the grid has to match, and the minus signs taken off, per eight weights.
    fn magnitudes(&self, x: &[f32], weight: &[f32]) -> (Vec<f32>, [u8; 32]) {
        let (mut a, mut minus) = (x.to_vec(), [0u8; 32]);
        if matches!(self.signs, Signs::ShiftPerGroup | Signs::ShiftPerSub) {
            return (a, minus);
        }
        for (g, (eight, w)) in a.chunks_exact_mut(8).zip(weight.chunks_exact(8)).enumerate() {
            for (i, a) in eight.iter_mut().enumerate() {
                minus[g] |= u8::from(*a < 0.0) << i;
                *a = a.abs();
            }
            if self.signs == Signs::Even && minus[g].count_ones() % 2 == 1 {
                let cost = |i: &usize| w[*i] * eight[*i] * eight[*i];
                let least = (0..8).min_by(|i, j| cost(i).total_cmp(&cost(j))).unwrap_or(0);
                minus[g] ^= 1 << least;
                eight[least] = -eight[least];
            }
        }
        (a, minus)
    }

    /// `b` and `c` of every entry for every group: `[group][2][entries]`.
    fn products(&self, a: &[f32], weight: &[f32]) -> Vec<f32> {
        let n = self.entries;
        let mut out = vec![0f32; BLOCK / self.width * 2 * n];
        for ((a, w), out) in
            a.chunks_exact(self.width).zip(weight.chunks_exact(self.width)).zip(out.chunks_exact_mut(2 * n))
        {
            let (b, c) = out.split_at_mut(n);
            for (j, v) in self.values.chunks_exact(n).enumerate() {
                let (wa, w) = (w[j] * a[j], w[j]);
                for ((b, c), v) in b.iter_mut().zip(c.iter_mut()).zip(v) {
                    *b += wa * v;
                    *c += w * v * v;
                }
            }
        }
        out
    }

    /// The choice of a sub-block at scale `s`: its error beside `Σ w x²`, the entries, and `Σ b`, `Σ c` of them.
    fn choose(&self, products: &[f32], s: f32, entries: &mut [u16]) -> (f32, f32, f32) {
        let n = self.entries;
        let families = if self.signs == Signs::ShiftPerSub { 2 } else { 1 };
        let mut best = (f32::INFINITY, 0.0, 0.0);
        let mut chosen = [0u16; 8];
        for family in 0..families {
            let range = family * n / families..(family + 1) * n / families;
            let (mut error, mut sb, mut sc) = (0.0, 0.0, 0.0);
            for (group, chosen) in products.chunks_exact(2 * n).zip(&mut chosen) {
                let (b, c) = (&group[range.clone()], &group[n..][range.clone()]);
                let (least, at) = least(b, c, s);
                error += least;
                *chosen = (range.start + at) as u16;
                sb += b[at];
                sc += c[at];
            }
            if error < best.0 {
                best = (error, sb, sc);
                entries.copy_from_slice(&chosen[..entries.len()]);
            }
        }
        best
    }

    /// The scale of a sub-block with the least error found.
    fn free_scale(&self, products: &[f32], largest: f32, groups: usize, candidates: usize) -> f32 {
        let mut entries = [0u16; 8];
        let mut best = (0.0, 0.0);
        for i in 0..candidates {
            let s = largest / self.largest * (0.7 + 1.3 * i as f32 / (candidates - 1).max(1) as f32);
            let (_, b, c) = self.choose(products, s, &mut entries[..groups]);
            if c > 0.0 && b > 0.0 && b * b > best.0 * c {
                best = (b * b / c, b / c);
            }
        }
        best.1
    }

    /// Codes 256 weights.
    pub fn fit(&self, x: &[f32], weight: &[f32]) -> Coded {
        let (a, minus) = self.magnitudes(x, weight);
        let products = self.products(&a, weight);
        let (groups, subs) = (self.sub / self.width, BLOCK / self.sub);
        let part = |j: usize| &products[j * groups * 2 * self.entries..][..groups * 2 * self.entries];
        let mut free = [0f32; 16];
        for (j, free) in free.iter_mut().enumerate().take(subs) {
            let range = j * self.sub..(j + 1) * self.sub;
            let largest = scale::largest(&a[range.clone()], &weight[range]).abs();
            *free = self.free_scale(part(j), largest, groups, 14);
        }
        let mut best = (f32::INFINITY, Coded { d: 0.0, scales: [0; 16], entries: [0; 64], minus });
        let highest = free.iter().copied().fold(0f32, f32::max);
        let mut d = highest / (self.unit * (2 * self.top + 1) as f32);
        for _ in 0..ROUNDS {
            let mut coded = Coded { d: to_half(d), ..best.1.clone() };
            let (mut total, mut bs, mut cs) = (0.0, 0.0, 0.0);
            for (j, free) in free[..subs].iter().enumerate() {
                let near = if coded.d > 0.0 { ((free / (coded.d * self.unit) - 1.0) / 2.0).round() as i32 } else { 0 };
                let mut least = (f32::INFINITY, 0.0, 0.0);
                let mut entries = [0u16; 8];
                for s in near - 1..=near + 1 {
                    let s = s.clamp(0, self.top);
                    let step = self.unit * (2 * s + 1) as f32;
                    let (error, b, c) = self.choose(part(j), coded.d * step, &mut entries[..groups]);
                    if error < least.0 {
                        least = (error, b * step, c * step * step);
                        coded.scales[j] = s as u8;
                        coded.entries[j * groups..][..groups].copy_from_slice(&entries[..groups]);
                    }
                }
                total += least.0;
                bs += least.1;
                cs += least.2;
            }
            if total >= best.0 {
                break;
            }
            best = (total, coded);
            if !(bs > 0.0 && cs > 0.0) {
                break;
            }
            d = bs / cs;
        }
        best.1
    }
}

/// The entry with the least `s² c - 2 s b`, and that value; in lanes, so that the compiler can use vectors.
fn least(b: &[f32], c: &[f32], s: f32) -> (f32, usize) {
    const LANES: usize = 8;
    let (ss, s2) = (s * s, 2.0 * s);
    let (mut values, mut rounds) = ([f32::INFINITY; LANES], [0u32; LANES]);
    for (round, (b, c)) in b.chunks_exact(LANES).zip(c.chunks_exact(LANES)).enumerate() {
        for i in 0..LANES {
            let e = ss * c[i] - s2 * b[i];
            let better = e < values[i];
            values[i] = if better { e } else { values[i] };
            rounds[i] = if better { round as u32 } else { rounds[i] };
        }
    }
    let lane = (0..LANES).min_by(|i, j| values[*i].total_cmp(&values[*j])).unwrap_or(0);
    (values[lane], rounds[lane] as usize * LANES + lane)
}
