//! Products of matrices of floats with several columns: rows of a tile or two are laid side by side once, so that sums need no
//! adding up across lanes, and columns of the input are read in pieces that stay in the cache.
//!
//! A word is what a lane takes in one step: a float, or a pair of brains where instructions multiply pairs.

use crate::float::{Brain, Element, Float, Half, Single};
use crate::simd::{entries, Simd, LANES};
use crate::Isa;

/// Bytes of 16 words.
pub(crate) const VECTOR: usize = 64;

/// Columns whose words are made at a time where they are not floats: few enough for the cache.
pub(crate) const SOME: usize = 24;

/// Whether the instructions multiply pairs of such elements.
pub(crate) fn has_pairs(isa: Isa, kind: Float) -> bool {
    isa == Isa::Avx512Bf16 && kind == Float::Bf16
}

/// Words of a row.
pub(crate) fn words(cols: usize, pairs: bool) -> usize {
    if pairs {
        cols.div_ceil(2)
    } else {
        cols
    }
}

/// Bytes of a tile, which is written in blocks of 16 words.
pub(crate) fn tile_bytes(words: usize) -> usize {
    words.next_multiple_of(LANES) * VECTOR
}

/// What a block of 16 words of a row is.
trait Fill {
    /// Elements of a block.
    const ELEMENTS: usize;
    const BYTES: usize;
    /// All of it.
    unsafe fn whole<S: Simd>(from: *const u8, to: *mut u8);
    /// The first `count` elements.
    unsafe fn part(from: *const u8, count: usize, to: *mut u8);
}

/// Floats of the elements.
struct Widened<E>(std::marker::PhantomData<E>);

impl<E: Element> Fill for Widened<E> {
    const ELEMENTS: usize = LANES;
    const BYTES: usize = E::BYTES;

    #[inline(always)]
    unsafe fn whole<S: Simd>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller answers for the instructions and for 16 elements and floats.
        unsafe { S::store(to.cast(), E::load::<S>(from)) }
    }

    #[inline(always)]
    unsafe fn part(from: *const u8, count: usize, to: *mut u8) {
        for i in 0..count {
            // SAFETY: the caller answers for `count` elements and floats.
            unsafe { to.cast::<f32>().add(i).write(E::one(from.add(i * E::BYTES))) }
        }
    }
}

/// Two brains in a word, as they are.
struct Pairs;

impl Fill for Pairs {
    const ELEMENTS: usize = 2 * LANES;
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn whole<S: Simd>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller answers for the instructions and for 64 bytes.
        unsafe { S::put_bytes(to, S::bytes(from)) }
    }

    #[inline(always)]
    unsafe fn part(from: *const u8, count: usize, to: *mut u8) {
        // SAFETY: the caller answers for `count` elements.
        unsafe { std::ptr::copy_nonoverlapping(from, to, 2 * count) }
    }
}

/// Lays 16 rows side by side.
///
/// # Safety
/// As of [`Simd`]; each of `rows` has `cols` elements or is null, `out` has room for the tile.
#[inline(always)]
unsafe fn lay<S: Simd, F: Fill>(rows: &[*const u8], cols: usize, out: *mut u8) {
    #[repr(C, align(64))]
    struct Block([u8; LANES * VECTOR]);
    let mut block = Block([0; LANES * VECTOR]);
    let at = block.0.as_mut_ptr();
    // SAFETY: the caller answers for the instructions and for what is read and written; the block has 64 bytes for each row.
    unsafe {
        for (i, from) in (0..cols).step_by(F::ELEMENTS).enumerate() {
            let count = (cols - from).min(F::ELEMENTS);
            if count < F::ELEMENTS {
                at.write_bytes(0, LANES * VECTOR);
            }
            for (r, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_null()) {
                let (row, to) = (row.add(from * F::BYTES), at.add(r * VECTOR));
                if count == F::ELEMENTS {
                    F::whole::<S>(row, to);
                } else {
                    F::part(row, count, to);
                }
            }
            let out = out.add(i * LANES * VECTOR);
            for j in 0..4 {
                for (k, words) in S::words(at.add(16 * j), VECTOR).into_iter().enumerate() {
                    S::put_bytes(out.add((4 * j + k) * VECTOR), words);
                }
            }
        }
    }
}

/// # Safety
/// As of [`lay`].
#[inline(always)]
unsafe fn lay_any<S: Simd>(kind: Float, pairs: bool, rows: &[*const u8], cols: usize, out: *mut u8) {
    // SAFETY: the caller answers for all of it.
    unsafe {
        match kind {
            _ if pairs => lay::<S, Pairs>(rows, cols, out),
            Float::F32 => lay::<S, Widened<Single>>(rows, cols, out),
            Float::F16 => lay::<S, Widened<Half>>(rows, cols, out),
            Float::Bf16 => lay::<S, Widened<Brain>>(rows, cols, out),
        }
    }
}

/// How a word of each of 16 rows is multiplied with one of a column.
trait Times<S: Simd> {
    unsafe fn add(sum: S::F, w: *const u8, x: *const u32) -> S::F;
}

/// Words are floats.
struct Floats;

impl<S: Simd> Times<S> for Floats {
    #[inline(always)]
    unsafe fn add(sum: S::F, w: *const u8, x: *const u32) -> S::F {
        // SAFETY: the caller answers for the instructions, 16 words at `w` and one at `x`.
        unsafe { S::fma(S::load(w.cast()), S::splat(x.cast::<f32>().read_unaligned()), sum) }
    }
}

/// `R` tiles times `N` columns: sums stay in registers.
///
/// # Safety
/// As of [`Simd`]; each of `tiles` and `x` has `words` words, `out` room for `R` tiles of each column, `apart` floats apart.
#[inline(always)]
unsafe fn block<S: Simd, T: Times<S>, const R: usize, const N: usize>(
    words: usize,
    tiles: [*const u8; R],
    x: &[*const u32],
    out: *mut f32,
    apart: usize,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let columns: [*const u32; N] = std::array::from_fn(|n| x[n]);
        let mut sums = [[S::splat(0.0); N]; R];
        for k in 0..words {
            for n in 0..N {
                for r in 0..R {
                    sums[r][n] = T::add(sums[r][n], tiles[r].add(k * VECTOR), columns[n].add(k));
                }
            }
        }
        for r in 0..R {
            for n in 0..N {
                S::store(out.add(n * apart + r * LANES), sums[r][n]);
            }
        }
    }
}

/// # Safety
/// As of [`block`], for all of `x`.
#[inline(always)]
unsafe fn blocks<S: Simd, T: Times<S>, const R: usize>(
    words: usize,
    tiles: [*const u8; R],
    x: &[*const u32],
    (out, apart): (*mut f32, usize),
) {
    let mut n = 0;
    while n < x.len() {
        let (rest, left) = (&x[n..], x.len() - n);
        // SAFETY: the caller answers for the instructions and for what is read and written.
        unsafe {
            let out = out.add(n * apart);
            n += if S::COLUMNS >= 6 && left >= 6 {
                block::<S, T, R, 6>(words, tiles, rest, out, apart);
                6
            } else if left >= 2 {
                block::<S, T, R, 2>(words, tiles, rest, out, apart);
                2
            } else {
                block::<S, T, R, 1>(words, tiles, rest, out, apart);
                1
            };
        }
    }
}

/// # Safety
/// As of [`block`], for one or two tiles that lie one after the other, and all of `x`.
#[inline(always)]
unsafe fn all<S: Simd, T: Times<S>>(of: Panel, x: &[*const u32], out: *mut f32, apart: usize) {
    let Panel { first, tiles, words } = of;
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        if tiles == 2 {
            blocks::<S, T, 2>(words, [first, first.add(tile_bytes(words))], x, (out, apart));
        } else {
            blocks::<S, T, 1>(words, [first], x, (out, apart));
        }
    }
}

/// # Safety
/// As of [`all`].
#[inline(always)]
unsafe fn floats<S: Simd>(of: Panel, x: &[*const u32], out: *mut f32, apart: usize) {
    // SAFETY: the caller answers for all of it.
    unsafe { all::<S, Floats>(of, x, out, apart) }
}

/// One or two tiles that [`lay_rows`] made, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    pub first: *const u8,
    pub tiles: usize,
    pub words: usize,
}

entries! {
    /// Lays 16 rows of `cols` elements side by side: each has that many, or is null and becomes zeros. `out` has room for a tile.
    pub(crate) fn lay_rows(kind: Float, pairs: bool, rows: &[*const u8], cols: usize, out: *mut u8) = lay_any;
    /// Tiles of floats times columns: the sums of column `n` go to `out[n * apart..]`, 16 for each tile.
    pub(crate) fn times(of: Panel, x: &[*const u32], out: *mut f32, apart: usize) = floats;
}

#[cfg(target_arch = "x86_64")]
pub(crate) use brains::{times_pairs, to_pairs};

/// Pairs of brains, whose products AVX-512 adds two at a time.
#[cfg(target_arch = "x86_64")]
mod brains {
    use super::{all, Panel, Times};
    use crate::simd::{Avx512, LANES};
    use std::arch::x86_64::*;

    struct PairsOfBrains;

    impl Times<Avx512> for PairsOfBrains {
        #[inline(always)]
        unsafe fn add(sum: __m512, w: *const u8, x: *const u32) -> __m512 {
            // SAFETY: the caller answers for the instructions, 16 words at `w` and one at `x`; all bits are some brains.
            unsafe {
                let w: __m512bh = std::mem::transmute(_mm512_loadu_si512(w.cast()));
                let x: __m512bh = std::mem::transmute(_mm512_set1_epi32(x.cast::<i32>().read_unaligned()));
                _mm512_dpbf16_ps(sum, w, x)
            }
        }
    }

    /// Tiles of pairs times columns of pairs, as [`super::times`].
    ///
    /// # Safety
    /// The machine is [`crate::Isa::Avx512Bf16`]; the rest is as of [`super::times`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
    pub(crate) unsafe fn times_pairs(of: Panel, x: &[*const u32], out: *mut f32, apart: usize) {
        // SAFETY: the instructions are enabled here; the rest is the caller's.
        unsafe { all::<Avx512, PairsOfBrains>(of, x, out, apart) }
    }

    /// Rounds `cols` floats at `x` to pairs; what is missing in the last vector of them is zero.
    ///
    /// # Safety
    /// The machine is [`crate::Isa::Avx512Bf16`]; `out` has room for whole vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) unsafe fn to_pairs(x: *const f32, cols: usize, out: *mut u8) {
        let load = |at: usize| {
            let left = cols.saturating_sub(at).min(LANES);
            // SAFETY: no more floats than there are.
            unsafe { _mm512_maskz_loadu_ps(((1u32 << left) - 1) as u16, x.wrapping_add(at)) }
        };
        for at in (0..cols).step_by(2 * LANES) {
            // SAFETY: the instructions are there, and room for whole vectors.
            unsafe {
                let pairs: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(load(at + LANES), load(at)));
                _mm512_storeu_si512(out.add(2 * at).cast(), pairs);
            }
        }
    }
}
