//! Products with matrices of floats, row by row as files have them.

use crate::simd::{entries, Simd, LANES};
use crate::Isa;

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

/// How rows of weights meet columns of the input, some elements at a time.
trait DotKernel<S: Simd> {
    /// Elements of one row of weights.
    type W: Copy;
    /// Elements of one column of the input.
    type X: Copy;
    /// Elements that meet at a time.
    const STEP: usize;
    /// Bytes of an element of a row, of a column.
    const BYTES: [usize; 2];
    unsafe fn row(p: *const u8) -> Self::W;
    unsafe fn column(p: *const u8) -> Self::X;
    unsafe fn add(w: Self::W, x: Self::X, sum: S::F) -> S::F;
    /// The product of one element each.
    unsafe fn one(w: *const u8, x: *const u8) -> f32;
}

/// Everything becomes floats.
struct Widened<E>(std::marker::PhantomData<E>);

impl<S: Simd, E: Element> DotKernel<S> for Widened<E> {
    type W = S::F;
    type X = S::F;
    const STEP: usize = LANES;
    const BYTES: [usize; 2] = [E::BYTES, 4];

    #[inline(always)]
    unsafe fn row(p: *const u8) -> S::F {
        // SAFETY: the caller answers for the instructions and for 16 elements.
        unsafe { E::load::<S>(p) }
    }

    #[inline(always)]
    unsafe fn column(p: *const u8) -> S::F {
        // SAFETY: likewise.
        unsafe { S::load(p.cast()) }
    }

    #[inline(always)]
    unsafe fn add(w: S::F, x: S::F, sum: S::F) -> S::F {
        // SAFETY: the caller answers for the instructions.
        unsafe { S::fma(w, x, sum) }
    }

    #[inline(always)]
    unsafe fn one(w: *const u8, x: *const u8) -> f32 {
        // SAFETY: the caller answers for an element each.
        unsafe { E::one(w) * Single::one(x) }
    }
}

/// `R` rows times `N` columns of `cols` elements, sums in registers.
///
/// # Safety
/// As of [`Simd`]; `rows` and `x` have `cols` elements each.
#[inline(always)]
unsafe fn block<S: Simd, T: DotKernel<S>, const R: usize, const N: usize>(
    rows: [*const u8; R],
    x: &[*const u8],
    cols: usize,
) -> [[f32; N]; R] {
    // SAFETY: the caller answers for the instructions and for what is read.
    unsafe {
        let [row_bytes, column_bytes] = T::BYTES;
        let x: [*const u8; N] = std::array::from_fn(|n| x[n]);
        let mut sums = [[S::splat(0.0); N]; R];
        let whole = cols / T::STEP * T::STEP;
        for at in (0..whole).step_by(T::STEP) {
            let mut columns = [T::column(x[0].add(at * column_bytes)); N];
            for n in 1..N {
                columns[n] = T::column(x[n].add(at * column_bytes));
            }
            for r in 0..R {
                let w = T::row(rows[r].add(at * row_bytes));
                for n in 0..N {
                    sums[r][n] = T::add(w, columns[n], sums[r][n]);
                }
            }
        }
        let mut totals = [0.0; LANES];
        if S::TOTALS && R * N == LANES {
            S::store(totals.as_mut_ptr(), S::totals(std::array::from_fn(|i| sums[i / N % R][i % N])));
        }
        let mut out = [[0.0; N]; R];
        for r in 0..R {
            for n in 0..N {
                let mut sum = if S::TOTALS && R * N == LANES { totals[r * N + n] } else { S::total(sums[r][n]) };
                for i in whole..cols {
                    sum += T::one(rows[r].add(i * row_bytes), x[n].add(i * column_bytes));
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

/// Columns that all rows meet before the next come: they stay in the cache.
pub(crate) const SOME: usize = 24;

/// Elements up to which a row's sum takes longer than its products, so that the sums of many rows are made together.
const SHORT: usize = 256;

/// # Safety
/// As of [`block`], for all rows and columns.
#[inline(always)]
unsafe fn all<S: Simd, T: DotKernel<S>>(of: Rows, x: &[*const u8], out: *mut f32) {
    for (i, x) in x.chunks(SOME).enumerate() {
        let mut r = 0;
        while r < of.rows {
            // SAFETY: the caller answers for the instructions and for what is read and written.
            unsafe {
                let out = out.add(i * SOME * of.apart + r);
                let first = of.first.add(r * of.cols * T::BYTES[0]);
                if S::TOTALS && of.rows - r >= LANES && of.cols <= SHORT && x.len() < 4 {
                    some::<S, T, LANES>(first, of, x, out);
                    r += LANES;
                } else if of.rows - r >= 4 {
                    some::<S, T, 4>(first, of, x, out);
                    r += 4;
                } else {
                    some::<S, T, 1>(first, of, x, out);
                    r += 1;
                }
            }
        }
    }
}

/// `R` rows from `first` on.
///
/// # Safety
/// As of [`block`], for all columns.
#[inline(always)]
unsafe fn some<S: Simd, T: DotKernel<S>, const R: usize>(first: *const u8, of: Rows, x: &[*const u8], out: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let rows: [*const u8; R] = std::array::from_fn(|r| first.add(r * of.cols * T::BYTES[0]));
        let mut n = 0;
        while n < x.len() {
            let out = out.add(n * of.apart);
            if R == 4 && S::COLUMNS >= 4 && x.len() - n >= 4 {
                put(block::<S, T, R, 4>(rows, &x[n..], of.cols), out, of.apart);
                n += 4;
            } else {
                put(block::<S, T, R, 1>(rows, &x[n..], of.cols), out, of.apart);
                n += 1;
            }
        }
    }
}

/// # Safety
/// There is room for `R` sums of each of `N` columns, `apart` floats apart.
#[inline(always)]
unsafe fn put<const R: usize, const N: usize>(sums: [[f32; N]; R], out: *mut f32, apart: usize) {
    for (r, sums) in sums.iter().enumerate() {
        for (n, sum) in sums.iter().enumerate() {
            // SAFETY: the caller answers for the room.
            unsafe { out.add(n * apart + r).write(*sum) };
        }
    }
}

/// # Safety
/// As of [`block`], for all rows and columns.
#[inline(always)]
unsafe fn any<S: Simd>(kind: Float, of: Rows, x: &[*const u8], out: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        match kind {
            Float::F32 => all::<S, Widened<Single>>(of, x, out),
            Float::F16 => all::<S, Widened<Half>>(of, x, out),
            Float::Bf16 => all::<S, Widened<Brain>>(of, x, out),
        }
    }
}

entries! {
    /// Rows of floats times columns of f32.
    pub(crate) fn times(kind: Float, of: Rows, x: &[*const u8], out: *mut f32) = any;
}

/// Whether products of several columns take these as brains, too.
pub(crate) fn rounds(isa: Isa, kind: Float, columns: usize) -> bool {
    isa == Isa::Avx512Bf16 && kind == Float::Bf16 && columns >= 4
}

#[cfg(target_arch = "x86_64")]
pub(crate) use brains::{round, times_brains};

/// Rows and columns of brains, of which AVX-512 multiplies pairs.
#[cfg(target_arch = "x86_64")]
mod brains {
    use super::{all, Brain, DotKernel, Element, Rows};
    use crate::simd::{Avx512, LANES};
    use std::arch::x86_64::*;

    struct DotBf16;

    impl DotKernel<Avx512> for DotBf16 {
        type W = __m512bh;
        type X = __m512bh;
        const STEP: usize = 2 * LANES;
        const BYTES: [usize; 2] = [2, 2];

        #[inline(always)]
        unsafe fn row(p: *const u8) -> __m512bh {
            // SAFETY: the caller answers for the instructions and for 32 elements; all bits are some brains.
            unsafe { std::mem::transmute(_mm512_loadu_si512(p.cast())) }
        }

        #[inline(always)]
        unsafe fn column(p: *const u8) -> __m512bh {
            // SAFETY: likewise.
            unsafe { Self::row(p) }
        }

        #[inline(always)]
        unsafe fn add(w: __m512bh, x: __m512bh, sum: __m512) -> __m512 {
            // SAFETY: the caller answers for the instructions.
            unsafe { _mm512_dpbf16_ps(sum, w, x) }
        }

        #[inline(always)]
        unsafe fn one(w: *const u8, x: *const u8) -> f32 {
            // SAFETY: the caller answers for an element each.
            unsafe { Brain::one(w) * Brain::one(x) }
        }
    }

    /// Rows of brains times columns of such.
    ///
    /// # Safety
    /// The machine is [`crate::Isa::Avx512Bf16`]; the rest is as of [`super::times`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
    pub(crate) unsafe fn times_brains(of: Rows, x: &[*const u8], out: *mut f32) {
        // SAFETY: the instructions are enabled here; the rest is the caller's.
        unsafe { all::<Avx512, DotBf16>(of, x, out) }
    }

    /// Rounds floats to brains, two bytes each.
    ///
    /// # Safety
    /// The machine is [`crate::Isa::Avx512Bf16`]; `out` has room for whole vectors of 32.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) unsafe fn round(x: &[f32], out: *mut u8) {
        let load = |at: usize| {
            let left = x.len().saturating_sub(at).min(LANES);
            // SAFETY: no more floats than there are.
            unsafe { _mm512_maskz_loadu_ps(((1u32 << left) - 1) as u16, x.as_ptr().wrapping_add(at)) }
        };
        for at in (0..x.len()).step_by(2 * LANES) {
            // SAFETY: the instructions are there, and room for whole vectors.
            unsafe {
                let pairs: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(load(at + LANES), load(at)));
                _mm512_storeu_si512(out.add(2 * at).cast(), pairs);
            }
        }
    }
}
