//! Searches for the scales that lose least: how floats become blocks.
//!
//! All minimize `Σ weight * (x - decoded)²`. A [`Lattice`] is the set of values a stored code can stand for before it is
//! scaled; [`scale`] fits one scale, [`affine`] a scale and an offset, [`two_level`] a block of sub-blocks whose scales are
//! themselves small integers, [`codebook`] groups of weights out of a grid. Each tries more candidates than the usual
//! heuristics, refits by least squares, and compares with the scales as they will be stored.

pub mod affine;
pub mod codebook;
pub mod scale;
pub mod two_level;

/// The nearest integer; exact below 2^22 and quick, for it is one addition.
#[inline]
pub fn round(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: the sum's last bit is worth 1
    (x + MAGIC) - MAGIC
}

/// `x`, or the nearer end. Unlike `clamp` it has no branch and keeps no NaN, so that vectors do it in two steps.
#[inline]
pub fn clamp_branchless(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high {
        x
    } else {
        high
    }
}

/// `1 / step`, or 0 where that would leave the range of f32: such a scale codes nothing.
#[inline]
pub fn inverse(step: f32) -> f32 {
    if step.abs() < 1e-37 {
        0.0
    } else {
        1.0 / step
    }
}

/// What f16 keeps of `x`; too large becomes the largest.
pub fn to_half(x: f32) -> f32 {
    half::f16::from_f32(x.clamp(-65504.0, 65504.0)).to_f32()
}

/// Values a code can stand for.
pub trait Lattice: Copy {
    /// The nearest of them.
    fn nearest(&self, x: f32) -> f32;
    /// Least and greatest.
    fn ends(&self) -> (f32, f32);
    /// The nearest of them to each of a run.
    #[inline(always)]
    fn nearest_each(&self, x: [f32; LANES]) -> [f32; LANES] {
        each(|i| self.nearest(x[i]))
    }
}

/// The integers `low..=high`.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    /// Least.
    pub low: f32,
    /// Greatest.
    pub high: f32,
}

impl Lattice for Integers {
    #[inline]
    fn nearest(&self, x: f32) -> f32 {
        round(clamp_branchless(x, self.low, self.high))
    }

    fn ends(&self) -> (f32, f32) {
        (self.low, self.high)
    }
}

/// Rising levels at any distance.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a>(pub &'a [f32]);

impl Levels<'_> {
    /// Index of the nearest level.
    #[inline]
    pub fn index(&self, x: f32) -> usize {
        self.0.windows(2).map(|pair| usize::from(2.0 * x > pair[0] + pair[1])).sum()
    }

    /// Indices of the levels nearest to `x / step`.
    pub fn codes(&self, x: &[f32], step: f32) -> Vec<u8> {
        let inverse = inverse(step);
        x.iter().map(|x| self.index(x * inverse) as u8).collect()
    }
}

impl Lattice for Levels<'_> {
    #[inline]
    fn nearest(&self, x: f32) -> f32 {
        self.0[self.index(x)]
    }

    fn ends(&self) -> (f32, f32) {
        (self.0[0], self.0[self.0.len() - 1])
    }

    // Level by level instead of number by number; levels are few-digit numbers, of which no sum loses anything.
    #[inline(always)]
    fn nearest_each(&self, x: [f32; LANES]) -> [f32; LANES] {
        let mut near = [self.0[0]; LANES];
        for pair in self.0.windows(2) {
            let (twice, step) = (pair[0] + pair[1], pair[1] - pair[0]);
            add(&mut near, |i| if 2.0 * x[i] > twice { step } else { 0.0 });
        }
        near
    }
}

/// Weighted squared error of `x` against `step * nearest(x / step)`.
pub fn error<L: Lattice>(x: &[f32], weight: &[f32], lattice: L, step: f32) -> f32 {
    let inverse = inverse(step);
    let mut sums = [0f32; LANES];
    lanes(x, weight, |x, w| {
        let l = lattice.nearest_each(each(|i| x[i] * inverse));
        let e = each(|i| x[i] - step * l[i]);
        add(&mut sums, |i| w[i] * e[i] * e[i]);
    });
    total(&sums)
}

/// Sums run in so many lanes, so that the compiler can use vectors; blocks and sub-blocks are multiples of it.
const LANES: usize = 8;

/// Calls `f(x, weight)` for all runs of `LANES` elements. Compilers make vectors of a run where every step of `f` is an array
/// of its own ([`each`], [`add`]); of several sums in one loop they make vectors of the sums.
#[inline(always)]
fn lanes(x: &[f32], weight: &[f32], mut f: impl FnMut(&[f32; LANES], &[f32; LANES])) {
    for (x, w) in x.as_chunks().0.iter().zip(weight.as_chunks().0) {
        f(x, w);
    }
}

/// The sum of all lanes. Not inlined: seeing several of these, the compiler would make vectors of the totals.
#[inline(never)]
fn total(lanes: &[f32; LANES]) -> f32 {
    lanes.iter().sum()
}

/// `f` of every lane.
#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

/// Adds `f` of every lane.
#[inline(always)]
fn add(sums: &mut [f32; LANES], f: impl Fn(usize) -> f32) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum += f(i);
    }
}

/// Codes `nearest(x / step) + offset`.
pub fn codes<L: Lattice>(x: &[f32], lattice: L, step: f32, offset: i32) -> Vec<u8> {
    let inverse = inverse(step);
    x.iter().map(|x| (lattice.nearest(x * inverse) as i32 + offset) as u8).collect()
}
