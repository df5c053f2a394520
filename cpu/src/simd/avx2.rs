//! AVX2 with FMA and F16C, with and without dot products of bytes: each vector is two registers.

use super::{methods, Simd};
use std::arch::x86_64::*;

/// AVX2, FMA, F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2;

/// AVX2, FMA, F16C and AVX-VNNI.
#[derive(Clone, Copy, Debug)]
pub struct AvxVnni;

type Two<T> = (T, T);

/// What both have in common: all but the dot products.
macro_rules! common {
    () => {
        methods! {
            fn prefetch(p: *const u8) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
            fn prefetch_second(p: *const u8) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
            fn bytes(p: *const u8) -> Two<__m256i> =
                (_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast()));
            fn put_bytes(p: *mut u8, b: Two<__m256i>) =
                { _mm256_storeu_si256(p.cast(), b.0); _mm256_storeu_si256(p.add(32).cast(), b.1) };
            fn splat_byte(b: u8) -> Two<__m256i> = (_mm256_set1_epi8(b as i8), _mm256_set1_epi8(b as i8));
            fn table(p: *const u8) -> Two<__m256i> =
                { let t = _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast())); (t, t) };
            fn and(a: Two<__m256i>, b: Two<__m256i>) -> Two<__m256i> =
                (_mm256_and_si256(a.0, b.0), _mm256_and_si256(a.1, b.1));
            fn or(a: Two<__m256i>, b: Two<__m256i>) -> Two<__m256i> =
                (_mm256_or_si256(a.0, b.0), _mm256_or_si256(a.1, b.1));
            fn add_bytes(a: Two<__m256i>, b: Two<__m256i>) -> Two<__m256i> =
                (_mm256_add_epi8(a.0, b.0), _mm256_add_epi8(a.1, b.1));
            fn look_up(table: Two<__m256i>, index: Two<__m256i>) -> Two<__m256i> =
                (_mm256_shuffle_epi8(table.0, index.0), _mm256_shuffle_epi8(table.1, index.1));
            fn words(p: *const u8, apart: usize) -> [Two<__m256i>; 4] = {
                let (a, b) = (eight_words(p, apart), eight_words(p.add(8 * apart), apart));
                [(a[0], b[0]), (a[1], b[1]), (a[2], b[2]), (a[3], b[3])]
            };
            fn no_sum() -> Two<__m256i> = (_mm256_setzero_si256(), _mm256_setzero_si256());
            fn add_sums(a: Two<__m256i>, b: Two<__m256i>) -> Two<__m256i> =
                (_mm256_add_epi32(a.0, b.0), _mm256_add_epi32(a.1, b.1));
            fn floats(a: Two<__m256i>) -> Two<__m256> = (_mm256_cvtepi32_ps(a.0), _mm256_cvtepi32_ps(a.1));
            fn load(p: *const f32) -> Two<__m256> = (_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8)));
            fn store(p: *mut f32, a: Two<__m256>) = { _mm256_storeu_ps(p, a.0); _mm256_storeu_ps(p.add(8), a.1) };
            fn splat(x: f32) -> Two<__m256> = (_mm256_set1_ps(x), _mm256_set1_ps(x));
            fn halves(p: *const u16) -> Two<__m256> =
                (_mm256_cvtph_ps(_mm_loadu_si128(p.cast())), _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast())));
            fn brains(p: *const u16) -> Two<__m256> = (
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.add(8).cast()))))
            );
            fn signed(p: *const u8) -> Two<__m256> = (
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.add(8).cast())))
            );
            fn unsigned(p: *const u8) -> Two<__m256> = (
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(8).cast())))
            );
            fn put_codes(p: *mut i8, a: Two<__m256>) = {
                let words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.0), _mm256_cvtps_epi32(a.1));
                let words = _mm256_permute4x64_epi64::<0b1101_1000>(words);
                let low = _mm256_castsi256_si128(words);
                _mm_storeu_si128(p.cast(), _mm_packs_epi16(low, _mm256_extracti128_si256::<1>(words)))
            };
            fn add(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1));
            fn sub(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1));
            fn mul(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1));
            fn div(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1));
            fn fma(a: Two<__m256>, b: Two<__m256>, c: Two<__m256>) -> Two<__m256> =
                (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1));
            fn fnma(a: Two<__m256>, b: Two<__m256>, c: Two<__m256>) -> Two<__m256> =
                (_mm256_fnmadd_ps(a.0, b.0, c.0), _mm256_fnmadd_ps(a.1, b.1, c.1));
            fn max(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1));
            fn min(a: Two<__m256>, b: Two<__m256>) -> Two<__m256> = (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1));
            fn abs(a: Two<__m256>) -> Two<__m256> =
                { let sign = _mm256_set1_ps(-0.0); (_mm256_andnot_ps(sign, a.0), _mm256_andnot_ps(sign, a.1)) };
            fn round(a: Two<__m256>) -> Two<__m256> = (
                _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a.0),
                _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a.1)
            );
            fn scale_by_power(a: Two<__m256>, n: Two<__m256>) -> Two<__m256> = {
                let one = _mm256_set1_epi32(127);
                let power = (
                    _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n.0), one)),
                    _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n.1), one)),
                );
                (_mm256_mul_ps(a.0, _mm256_castsi256_ps(power.0)), _mm256_mul_ps(a.1, _mm256_castsi256_ps(power.1)))
            };
            fn total(a: Two<__m256>) -> f32 = {
                let eight = _mm256_add_ps(a.0, a.1);
                let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            };
            fn largest(a: Two<__m256>) -> f32 = {
                let eight = _mm256_max_ps(a.0, a.1);
                let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
            };
        }

        #[inline(always)]
        unsafe fn right<const N: u32>(a: Two<__m256i>) -> Two<__m256i> {
            // SAFETY: as of every method of `Simd`.
            unsafe {
                let by = _mm_cvtsi32_si128(N as i32);
                (_mm256_srl_epi16(a.0, by), _mm256_srl_epi16(a.1, by))
            }
        }

        #[inline(always)]
        unsafe fn left<const N: u32>(a: Two<__m256i>) -> Two<__m256i> {
            // SAFETY: as of every method of `Simd`.
            unsafe {
                let by = _mm_cvtsi32_si128(N as i32);
                (_mm256_sll_epi16(a.0, by), _mm256_sll_epi16(a.1, by))
            }
        }
    };
}

/// Transposes words of eight rows of 16 bytes, `apart` bytes apart: their first words side by side, their second ones, and so on.
///
/// # Safety
/// The machine has AVX2; the rows are there.
#[inline(always)]
unsafe fn eight_words(p: *const u8, apart: usize) -> [__m256i; 4] {
    // SAFETY: the caller answers for the instructions and the rows.
    unsafe {
        let a = _mm256_loadu2_m128i(p.add(4 * apart).cast(), p.cast());
        let b = _mm256_loadu2_m128i(p.add(5 * apart).cast(), p.add(apart).cast());
        let c = _mm256_loadu2_m128i(p.add(6 * apart).cast(), p.add(2 * apart).cast());
        let d = _mm256_loadu2_m128i(p.add(7 * apart).cast(), p.add(3 * apart).cast());
        let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (low2, high2) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(low, high),
            _mm256_unpackhi_epi64(low, high),
            _mm256_unpacklo_epi64(low2, high2),
            _mm256_unpackhi_epi64(low2, high2),
        ]
    }
}

/// Sums of four products of unsigned with signed bytes; products of two must fit 16 bits.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn four(sum: __m256i, u: __m256i, a: __m256i) -> __m256i {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        let two = _mm256_maddubs_epi16(u, a);
        _mm256_add_epi32(sum, _mm256_madd_epi16(two, _mm256_set1_epi16(1)))
    }
}

impl Simd for Avx2 {
    type B = Two<__m256i>;
    type I = Two<__m256i>;
    type F = Two<__m256>;
    const COLUMNS: usize = 2;

    common!();
    methods! {
        fn biased_sum(_correction: i32) -> Two<__m256i> = (_mm256_setzero_si256(), _mm256_setzero_si256());
        fn dot(sum: Two<__m256i>, u: Two<__m256i>, a: *const i8) -> Two<__m256i> = {
            let a = _mm256_set1_epi32(a.cast::<i32>().read_unaligned());
            (four(sum.0, u.0, a), four(sum.1, u.1, a))
        };
        // The signs go to the codes, so that sums of two products fit 16 bits: 2 * 128 * 127.
        fn dot_biased(sum: Two<__m256i>, u: Two<__m256i>, a: *const i8) -> Two<__m256i> = {
            let (a, top) = (_mm256_set1_epi32(a.cast::<i32>().read_unaligned()), _mm256_set1_epi8(-128));
            let w = (_mm256_xor_si256(u.0, top), _mm256_xor_si256(u.1, top));
            (
                four(sum.0, _mm256_abs_epi8(w.0), _mm256_sign_epi8(a, w.0)),
                four(sum.1, _mm256_abs_epi8(w.1), _mm256_sign_epi8(a, w.1)),
            )
        };
    }
}

impl Simd for AvxVnni {
    type B = Two<__m256i>;
    type I = Two<__m256i>;
    type F = Two<__m256>;
    const COLUMNS: usize = 2;

    common!();
    methods! {
        fn biased_sum(correction: i32) -> Two<__m256i> = (_mm256_set1_epi32(correction), _mm256_set1_epi32(correction));
        fn dot(sum: Two<__m256i>, u: Two<__m256i>, a: *const i8) -> Two<__m256i> = {
            let a = _mm256_set1_epi32(a.cast::<i32>().read_unaligned());
            (_mm256_dpbusd_avx_epi32(sum.0, u.0, a), _mm256_dpbusd_avx_epi32(sum.1, u.1, a))
        };
        fn dot_biased(sum: Two<__m256i>, u: Two<__m256i>, a: *const i8) -> Two<__m256i> = {
            let a = _mm256_set1_epi32(a.cast::<i32>().read_unaligned());
            (_mm256_dpbusd_avx_epi32(sum.0, u.0, a), _mm256_dpbusd_avx_epi32(sum.1, u.1, a))
        };
    }
}
