//! Groups of weights out of a grid: `x ≈ ±d * unit * (2 * scales[j] + 1) * entry`.
//!
//! For a group and an entry the error is `Σ w x² - 2 s b + s² c` with `b = Σ w x v` and `c = Σ w v²`. Divided by `s` that is a
//! line in `s`, so the best entries of all scales lie on the lower envelope of lines. What cannot be on it is left out once,
//! and every scale is then tried against the few entries that can: the search over entries is exact.

use super::{scale, to_half};
use crate::grid::{Grid, DELTA};
use std::ops::Range;

/// Weights of a block.
const BLOCK: usize = 256;
/// Rounds of choosing integers and refitting the block's half.
const ROUNDS: usize = 3;

/// Entries looked at together, so that the compiler can use vectors; grids have whole multiples of it.
const LANES: usize = 8;

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
    /// Per family, for weights that all count 1.
    classes: Vec<Classes>,
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
pub struct CodedBlock {
    /// The factor of the scales, f16-exact.
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
        let mut book = Book { values, classes: Vec::new(), entries, width: grid.width, signs, sub, unit, top, largest };
        let of = entries / book.families();
        book.classes =
            (0..book.families()).map(|f| Classes::new(&book.values, entries, f * of..(f + 1) * of)).collect();
        book
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

    /// Ranges of entries of which a sub-block uses one.
    fn families(&self) -> usize {
        if self.signs == Signs::ShiftPerSub {
            2
        } else {
            1
        }
    }

    /// The entries of every group that are best at some scale, and a few more.
    fn candidates(&self, a: &[f32], weight: &[f32]) -> Candidates {
        let (n, families) = (self.entries, self.families());
        let mut out = Candidates::with_room(BLOCK / self.width * 32);
        let (mut b, mut c, mut room) = (vec![0f32; n], vec![0f32; n], ClassScratch::default());
        for (a, w) in a.chunks_exact(self.width).zip(weight.chunks_exact(self.width)) {
            if w.iter().all(|w| *w == 1.0) {
                self.classes.iter().for_each(|classes| classes.add_to(&mut out, a, &mut room));
                continue;
            }
            for (at, (b, c)) in b.chunks_exact_mut(LANES).zip(c.chunks_exact_mut(LANES)).enumerate() {
                let (mut sum, mut squares) = ([0f32; LANES], [0f32; LANES]);
                for (j, v) in self.values.chunks_exact(n).enumerate() {
                    let (wa, w, v) = (w[j] * a[j], w[j], &v[at * LANES..][..LANES]);
                    for i in 0..LANES {
                        sum[i] += wa * v[i];
                        squares[i] += w * v[i] * v[i];
                    }
                }
                b.copy_from_slice(&sum);
                c.copy_from_slice(&squares);
            }
            for family in 0..families {
                let range = family * n / families..(family + 1) * n / families;
                out.add(&b[range.clone()], &c[range.clone()], |i| range.start + i);
            }
        }
        out
    }

    /// The choice of sub-block `j` at scale `s`: its error beside `Σ w x²`, the entries, and `Σ b`, `Σ c` of them.
    fn choose(&self, lines: &Candidates, j: usize, s: f32, entries: &mut [u16]) -> (f32, f32, f32) {
        let (families, groups) = (self.families(), self.sub / self.width);
        let mut best = (f32::INFINITY, 0.0, 0.0);
        let mut chosen = [0u16; 8];
        for family in 0..families {
            let (mut error, mut sb, mut sc) = (0.0, 0.0, 0.0);
            for (g, chosen) in chosen.iter_mut().enumerate().take(groups) {
                let (least, at) = lines.best((j * groups + g) * families + family, s);
                error += least;
                *chosen = at.entry;
                sb += at.b;
                sc += at.c;
            }
            if error < best.0 {
                best = (error, sb, sc);
                entries.copy_from_slice(&chosen[..entries.len()]);
            }
        }
        best
    }

    /// The scale of a sub-block with the least error found.
    fn free_scale(&self, lines: &Candidates, j: usize, largest: f32, tried: usize) -> f32 {
        let (groups, mut entries) = (self.sub / self.width, [0u16; 8]);
        let mut best = (0.0, 0.0);
        for i in 0..tried {
            let s = largest / self.largest * (0.7 + 1.3 * i as f32 / (tried - 1).max(1) as f32);
            let (_, b, c) = self.choose(lines, j, s, &mut entries[..groups]);
            if c > 0.0 && b > 0.0 && b * b > best.0 * c {
                best = (b * b / c, b / c);
            }
        }
        best.1
    }

    /// Codes 256 weights.
    pub fn fit(&self, x: &[f32], weight: &[f32]) -> CodedBlock {
        let (a, minus) = self.magnitudes(x, weight);
        let lines = self.candidates(&a, weight);
        let (groups, subs) = (self.sub / self.width, BLOCK / self.sub);
        let mut free = [0f32; 16];
        for (j, free) in free.iter_mut().enumerate().take(subs) {
            let range = j * self.sub..(j + 1) * self.sub;
            let largest = scale::largest(&a[range.clone()], &weight[range]).abs();
            *free = self.free_scale(&lines, j, largest, 14);
        }
        let mut best = (f32::INFINITY, CodedBlock { d: 0.0, scales: [0; 16], entries: [0; 64], minus });
        let highest = free.iter().copied().fold(0f32, f32::max);
        let mut d = highest / (self.unit * (2 * self.top + 1) as f32);
        for _ in 0..ROUNDS {
            let mut coded = CodedBlock { d: to_half(d), ..best.1.clone() };
            let (mut total, mut bs, mut cs) = (0.0, 0.0, 0.0);
            for (j, free) in free[..subs].iter().enumerate() {
                let near = if coded.d > 0.0 { ((free / (coded.d * self.unit) - 1.0) / 2.0).round() as i32 } else { 0 };
                let mut least = (f32::INFINITY, 0.0, 0.0);
                let mut entries = [0u16; 8];
                for s in near - 1..=near + 1 {
                    let s = s.clamp(0, self.top);
                    let step = self.unit * (2 * s + 1) as f32;
                    let (error, b, c) = self.choose(&lines, j, coded.d * step, &mut entries[..groups]);
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

/// Entries of a family by their `c = Σ v²`, of which there are few: of those with the same only the one with the greatest `b` can be
/// best.
#[derive(Debug)]
struct Classes {
    /// Values `[width][len]`, class by class, the last entry of each repeated up to whole multiples of [`FEW`].
    values: Vec<f32>,
    entries: Vec<u16>,
    /// Where each class ends, and its `c`.
    ends: Vec<(usize, f32)>,
}

impl Classes {
    /// Classes of the entries in `range` of `values`, `[width][stride]`.
    fn new(values: &[f32], stride: usize, range: Range<usize>) -> Classes {
        let square = |e: &usize| values.chunks_exact(stride).map(|v| v[*e] * v[*e]).sum::<f32>();
        let mut sorted: Vec<usize> = range.collect();
        sorted.sort_by(|i, j| square(i).total_cmp(&square(j)));
        let (mut entries, mut ends) = (Vec::new(), Vec::new());
        for class in sorted.chunk_by(|i, j| square(i) == square(j)) {
            entries.extend_from_slice(class);
            entries.resize(entries.len().next_multiple_of(FEW), class[class.len() - 1]);
            ends.push((entries.len(), square(&class[0])));
        }
        let values = values.chunks_exact(stride).flat_map(|v| entries.iter().map(|e| v[*e])).collect();
        Classes { values, entries: entries.into_iter().map(|e| e as u16).collect(), ends }
    }

    /// Adds the lines of a group with magnitudes `a`.
    fn add_to(&self, out: &mut Candidates, a: &[f32], room: &mut ClassScratch) {
        let (n, len) = (self.entries.len(), self.ends.len().next_multiple_of(LANES));
        let ClassScratch { b, best, c } = room;
        b.clear();
        b.resize(n, 0.0);
        for (a, v) in a.iter().zip(self.values.chunks_exact(n)) {
            b.iter_mut().zip(v).for_each(|(b, v)| *b += a * v);
        }
        best.clear();
        c.clear();
        let mut start = 0;
        for (end, square) in &self.ends {
            best.push(greatest(&b[start..*end]));
            c.push(*square);
            start = *end;
        }
        best.resize(len, 0.0);
        c.resize(len, f32::INFINITY);
        // Whose a line is, is looked for only if it is kept.
        out.add(best, c, |i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1].0 };
            let at = b[start..].iter().position(|b| *b == best[i]).unwrap_or(0);
            usize::from(self.entries[start + at])
        });
    }
}

/// Room for what [`Classes::add_to`] makes on the way.
#[derive(Default)]
struct ClassScratch {
    b: Vec<f32>,
    best: Vec<f32>,
    c: Vec<f32>,
}

/// The greatest of whole multiples of [`FEW`].
fn greatest(b: &[f32]) -> f32 {
    let mut values = [f32::NEG_INFINITY; FEW];
    for b in b.chunks_exact(FEW) {
        values = std::array::from_fn(|i| if b[i] > values[i] { b[i] } else { values[i] });
    }
    values.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// An entry's line `s c - 2 b`.
#[derive(Clone, Copy, Debug, Default)]
struct EntryLine {
    b: f32,
    c: f32,
    entry: u16,
}

/// Lines by group and family, the members of [`EntryLine`] apart, so that several are looked at at once.
#[derive(Default)]
struct Candidates {
    b: Vec<f32>,
    c: Vec<f32>,
    entries: Vec<u16>,
    starts: Vec<usize>,
}

/// Lines looked at together.
const FEW: usize = 4;

impl Candidates {
    fn with_room(lines: usize) -> Candidates {
        let (b, c) = (Vec::with_capacity(lines), Vec::with_capacity(lines));
        Candidates { b, c, entries: Vec::with_capacity(lines), starts: vec![0] }
    }

    fn push(&mut self, b: f32, c: f32, entry: usize) {
        self.b.push(b);
        self.c.push(c);
        self.entries.push(entry as u16);
    }

    /// The line of list `i` that is lowest at `s`, the first of equals, and its error.
    fn best(&self, i: usize, s: f32) -> (f32, EntryLine) {
        let range = self.starts[i]..self.starts[i + 1];
        let (b, c) = (&self.b[range.clone()], &self.c[range.clone()]);
        let (ss, twice) = (s * s, 2.0 * s);
        let errors = |b: &[f32], c: &[f32]| -> [f32; FEW] { std::array::from_fn(|i| ss * c[i] - twice * b[i]) };
        let pairs = || b.chunks_exact(FEW).zip(c.chunks_exact(FEW));
        let mut values = [f32::INFINITY; FEW];
        for (b, c) in pairs() {
            let e = errors(b, c);
            values = std::array::from_fn(|i| if e[i] < values[i] { e[i] } else { values[i] });
        }
        let least = values.into_iter().fold(f32::INFINITY, f32::min);
        // Where it was: the first of equals.
        let at = pairs().position(|(b, c)| errors(b, c).contains(&least)).map_or(0, |round| round * FEW);
        let at = at + (0..FEW).find(|i| ss * c[at + i] - twice * b[at + i] == least).unwrap_or(0);
        (least, EntryLine { b: b[at], c: c[at], entry: self.entries[range.start + at] })
    }

    /// Ends a list: lines that are nowhere lowest make it a whole number of [`FEW`].
    fn end(&mut self) {
        let start = self.starts.last().copied().unwrap_or(0);
        while !(self.b.len() - start).is_multiple_of(FEW) {
            self.push(0.0, f32::INFINITY, 0);
        }
        self.starts.push(self.b.len());
    }

    /// Adds those lines that may be lowest somewhere; `entry` tells whose each is.
    ///
    /// Let two lines be lowest at two scales. Between these a third is lowest somewhere only if it is below where the two
    /// cross, for it is above both at the ends.
    fn add(&mut self, b: &[f32], c: &[f32], entry: impl Fn(usize) -> usize) {
        let ends = [lowest(b, c, 0.0, 1.0), lowest(b, c, 1.0, 0.0)];
        let middle = crossing(b, c, ends[0], ends[1]).map(|s| lowest(b, c, s, 2.0));
        let path = [Some(ends[0]), middle, Some(ends[1])];
        let mut known: Vec<usize> = path.into_iter().flatten().collect();
        known.dedup();
        known.iter().for_each(|i| self.push(b[*i], c[*i], entry(*i)));
        for pair in known.windows(2) {
            let Some(s) = crossing(b, c, pair[0], pair[1]) else { continue };
            let limit = s * c[pair[0]] - 2.0 * b[pair[0]];
            for (at, (b, c)) in b.chunks_exact(LANES).zip(c.chunks_exact(LANES)).enumerate() {
                let (mut values, mut any) = ([0f32; LANES], false);
                for i in 0..LANES {
                    values[i] = s * c[i] - 2.0 * b[i];
                    any |= values[i] < limit;
                }
                if any {
                    for i in (0..LANES).filter(|i| values[*i] < limit) {
                        self.push(b[i], c[i], entry(at * LANES + i));
                    }
                }
            }
        }
        self.end();
    }
}

/// Where the lines of entries `i` and `j` cross, at a positive scale.
fn crossing(b: &[f32], c: &[f32], i: usize, j: usize) -> Option<f32> {
    let s = 2.0 * (b[i] - b[j]) / (c[i] - c[j]);
    (s > 0.0 && s.is_finite()).then_some(s)
}

/// The entry with the least `s c - t b`, the first of equals; the first of all where none is less than infinity.
fn lowest(b: &[f32], c: &[f32], s: f32, t: f32) -> usize {
    let errors = |b: &[f32], c: &[f32]| -> [f32; LANES] { std::array::from_fn(|i| s * c[i] - t * b[i]) };
    let rounds = || b.chunks_exact(LANES).zip(c.chunks_exact(LANES)).map(|(b, c)| errors(b, c));
    let mut values = [f32::INFINITY; LANES];
    for e in rounds() {
        values = std::array::from_fn(|i| if e[i] < values[i] { e[i] } else { values[i] });
    }
    let least = values.into_iter().fold(f32::INFINITY, f32::min);
    let has = |e: &[f32; LANES]| e.iter().fold(false, |any, e| any | (*e == least));
    let found = rounds().enumerate().find(|(_, e)| least < f32::INFINITY && has(e));
    found.map_or(0, |(round, e)| round * LANES + e.iter().position(|e| *e == least).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scale_would_choose_an_entry_that_was_left_out() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        for round in 0..200 {
            let n = 512;
            let b: Vec<f32> = (0..n).map(|_| 2.0 * random() - if round % 2 == 0 { 0.2 } else { 1.0 }).collect();
            let c: Vec<f32> = (0..n).map(|_| 0.1 + random()).collect();
            let mut lines = Candidates::with_room(64);
            lines.add(&b, &c, |i| i);
            assert!(lines.b.len() < n / 2, "{} of {n} left", lines.b.len());
            for i in 0..40 {
                let s = 0.05 * 1.3f32.powi(i / 2);
                let value = |b: f32, c: f32| s * c - 2.0 * b;
                let all = b.iter().zip(&c).map(|(b, c)| value(*b, *c)).fold(f32::INFINITY, f32::min);
                let few = lines.best(0, s).0 / s;
                assert!(few <= all + 1e-5 * all.abs(), "scale {s}: {few} of the few, {all} of all");
            }
        }
    }
}
