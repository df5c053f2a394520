//! Products with matrices of floats, row by row as files have them.

use crate::simd::{entries, Simd, LANES};

/// What the elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// 32 bits.
    F32,
    /// Halves.
    F16,
    /// The upper halves of floats.
    Bf16,
}

impl Float {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
        }
    }
}

/// How 16 elements are read, and one.
pub(crate) trait Element {
    const BYTES: usize;
    unsafe fn load<S: Simd>(p: *const u8) -> S::F;
    unsafe fn one(p: *const u8) -> f32;
}

macro_rules! elements {
    ($($name:ident, $bytes:expr, |$s:ident, $p:ident| $load:expr, $one:expr;)*) => { $(
        pub(crate) struct $name;
        impl Element for $name {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load<$s: Simd>($p: *const u8) -> $s::F {
                // SAFETY: the caller answers for the instructions and for 16 elements at `p`.
                unsafe { $load }
            }
            #[inline(always)]
            unsafe fn one($p: *const u8) -> f32 {
                // SAFETY: the caller answers for an element at `p`.
                unsafe { $one }
            }
        }
    )* };
}

elements! {
    Single, 4, |S, p| S::load(p.cast()), p.cast::<f32>().read_unaligned();
    Half, 2, |S, p| S::halves(p.cast()), half::f16::from_bits(p.cast::<u16>().read_unaligned()).to_f32();
    Brain, 2, |S, p| S::brains(p.cast()), f32::from_bits(u32::from(p.cast::<u16>().read_unaligned()) << 16);
}

/// `R` rows times `N` columns of `cols` elements, sums in registers.
///
/// # Safety
/// As of [`Simd`]; `rows` and `x` have `cols` elements each.
#[inline(always)]
unsafe fn block<S: Simd, E: Element, const R: usize, const N: usize>(
    rows: [*const u8; R],
    x: [*const f32; N],
    cols: usize,
) -> [[f32; N]; R] {
    // SAFETY: the caller answers for the instructions and for what is read.
    unsafe {
        let mut sums = [[S::splat(0.0); N]; R];
        let whole = cols / LANES * LANES;
        let mut at = 0;
        while at < whole {
            let mut columns = [S::splat(0.0); N];
            for n in 0..N {
                columns[n] = S::load(x[n].add(at));
            }
            for r in 0..R {
                let w = E::load::<S>(rows[r].add(at * E::BYTES));
                for n in 0..N {
                    sums[r][n] = S::fma(w, columns[n], sums[r][n]);
                }
            }
            at += LANES;
        }
        let mut out = [[0.0; N]; R];
        for r in 0..R {
            for n in 0..N {
                let mut sum = S::total(sums[r][n]);
                for i in whole..cols {
                    sum += E::one(rows[r].add(i * E::BYTES)) * *x[n].add(i);
                }
                out[r][n] = sum;
            }
        }
        out
    }
}

/// A run of rows, and where their products go: row `r` and column `n` to `out[n * apart + r]`.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub first: *const u8,
    pub rows: usize,
    pub cols: usize,
    pub apart: usize,
}

/// # Safety
/// As of [`block`], for all rows and columns.
#[inline(always)]
unsafe fn all<S: Simd, E: Element>(of: Rows, x: &[*const f32], out: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let row = |r: usize| of.first.add(r * of.cols * E::BYTES);
        let mut r = 0;
        while r < of.rows {
            let four = of.rows - r >= 4;
            let mut n = 0;
            while n < x.len() {
                let to = out.add(n * of.apart + r);
                if four && S::COLUMNS >= 4 && x.len() - n >= 4 {
                    let found = block::<S, E, 4, 4>(
                        [row(r), row(r + 1), row(r + 2), row(r + 3)],
                        [x[n], x[n + 1], x[n + 2], x[n + 3]],
                        of.cols,
                    );
                    for (r, sums) in found.iter().enumerate() {
                        for (n, sum) in sums.iter().enumerate() {
                            to.add(n * of.apart + r).write(*sum);
                        }
                    }
                    n += 4;
                } else if four {
                    let found = block::<S, E, 4, 1>([row(r), row(r + 1), row(r + 2), row(r + 3)], [x[n]], of.cols);
                    for (r, sums) in found.iter().enumerate() {
                        to.add(r).write(sums[0]);
                    }
                    n += 1;
                } else {
                    to.write(block::<S, E, 1, 1>([row(r)], [x[n]], of.cols)[0][0]);
                    n += 1;
                }
            }
            r += if four { 4 } else { 1 };
        }
    }
}

/// # Safety
/// As of [`block`], for all rows and columns.
#[inline(always)]
unsafe fn any<S: Simd>(kind: Float, of: Rows, x: &[*const f32], out: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        match kind {
            Float::F32 => all::<S, Single>(of, x, out),
            Float::F16 => all::<S, Half>(of, x, out),
            Float::Bf16 => all::<S, Brain>(of, x, out),
        }
    }
}

entries! {
    /// Rows of floats times columns.
    pub(crate) fn times(kind: Float, of: Rows, x: &[*const f32], out: *mut f32) = any;
}
