//! AVX-512 with VNNI.

use super::{methods, Simd};
use std::arch::x86_64::*;

/// AVX-512 F, BW, VL, DQ, VNNI.
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

impl Simd for Avx512 {
    type B = __m512i;
    type I = __m512i;
    type F = __m512;
    const COLUMNS: usize = 6;
    const TOTALS: bool = true;

    methods! {
        fn prefetch(p: *const u8) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        fn prefetch_second(p: *const u8) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        fn bytes(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        fn put_bytes(p: *mut u8, b: __m512i) = _mm512_storeu_si512(p.cast(), b);
        fn splat_byte(b: u8) -> __m512i = _mm512_set1_epi8(b as i8);
        fn table(p: *const u8) -> __m512i = _mm512_broadcast_i32x4(_mm_loadu_si128(p.cast()));
        fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        fn add_bytes(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi8(a, b);
        fn right<const N: u32>(a: __m512i) -> __m512i = _mm512_srli_epi16::<N>(a);
        fn left<const N: u32>(a: __m512i) -> __m512i = _mm512_slli_epi16::<N>(a);
        fn look_up(table: __m512i, index: __m512i) -> __m512i = _mm512_shuffle_epi8(table, index);
        fn words(p: *const u8, apart: usize) -> [__m512i; 4] = {
            // In each quarter a row; of four of these, the quarters are transposed. Closures would not have the instructions.
            macro_rules! four { ($i:expr) => {{
                let two = _mm256_loadu2_m128i(p.add(($i + 4) * apart).cast(), p.add($i * apart).cast());
                let more = _mm256_loadu2_m128i(p.add(($i + 12) * apart).cast(), p.add(($i + 8) * apart).cast());
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(two), more)
            }}; }
            let (a, b, c, d) = (four!(0), four!(1), four!(2), four!(3));
            let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (low2, high2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(low, high),
                _mm512_unpackhi_epi64(low, high),
                _mm512_unpacklo_epi64(low2, high2),
                _mm512_unpackhi_epi64(low2, high2),
            ]
        };
        fn no_sum() -> __m512i = _mm512_setzero_si512();
        fn biased_sum(correction: i32) -> __m512i = _mm512_set1_epi32(correction);
        fn dot(sum: __m512i, u: __m512i, a: *const i8) -> __m512i =
            _mm512_dpbusd_epi32(sum, u, _mm512_set1_epi32(a.cast::<i32>().read_unaligned()));
        fn dot_biased(sum: __m512i, u: __m512i, a: *const i8) -> __m512i =
            _mm512_dpbusd_epi32(sum, u, _mm512_set1_epi32(a.cast::<i32>().read_unaligned()));
        fn add_sums(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        fn floats(a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
        fn load(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        fn store(p: *mut f32, a: __m512) = _mm512_storeu_ps(p, a);
        fn splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        fn halves(p: *const u16) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        fn brains(p: *const u16) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
        fn signed(p: *const u8) -> __m512 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())));
        fn unsigned(p: *const u8) -> __m512 = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
        fn put_codes(p: *mut i8, a: __m512) = _mm_storeu_si128(p.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        fn abs(a: __m512) -> __m512 = _mm512_abs_ps(a);
        fn round(a: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(a);
        fn scale_by_power(a: __m512, n: __m512) -> __m512 = _mm512_scalef_ps(a, n);
        fn total(a: __m512) -> f32 = {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        };
        fn totals(all: [__m512; 16]) -> __m512 = {
            // Quarter l of `fours[v]` belongs to number 4l + v, so that these come out in order.
            let mut fours = [_mm512_setzero_ps(); 4];
            for v in 0..4 {
                let mut eights = [_mm512_setzero_ps(); 2];
                for h in 0..2 {
                    let (a, b) = (all[8 * h + v], all[8 * h + 4 + v]);
                    eights[h] = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
                }
                let [a, b] = eights;
                fours[v] = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            }
            let mut twos = [_mm512_setzero_ps(); 2];
            for h in 0..2 {
                let (a, b) = (_mm512_castps_pd(fours[2 * h]), _mm512_castps_pd(fours[2 * h + 1]));
                let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                twos[h] = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            }
            let [a, b] = twos;
            _mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b))
        };
        fn largest(a: __m512) -> f32 = _mm512_reduce_max_ps(a);
    }
}
