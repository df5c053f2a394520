//! NEON with dot products of bytes: each vector is four registers.

use super::{methods, Simd};
use std::arch::aarch64::*;

/// NEON with `sdot`.
#[derive(Clone, Copy, Debug)]
pub struct Neon;

/// NEON with `sdot` and, for several columns, `smmla`.
#[derive(Clone, Copy, Debug)]
pub struct NeonI8mm;

type Bytes = [uint8x16_t; 4];
type Ints = [int32x4_t; 4];
type Floats = [float32x4_t; 4];

/// Does a thing for all four registers; a macro, because closures would not have the instructions.
macro_rules! four {
    ($i:ident, $e:expr) => {
        [{ const $i: usize = 0; $e }, { const $i: usize = 1; $e }, { const $i: usize = 2; $e }, { const $i: usize = 3; $e }]
    };
}

/// What both have in common.
macro_rules! common {
    () => {
        type B = Bytes;
        type I = Ints;
        type F = Floats;

        methods! {
            fn prefetch(_p: *const u8) = ();
            fn prefetch_second(_p: *const u8) = ();
            fn bytes(p: *const u8) -> Bytes = four!(I, vld1q_u8(p.add(16 * I)));
            fn put_bytes(p: *mut u8, b: Bytes) = for (i, b) in b.iter().enumerate() { vst1q_u8(p.add(16 * i), *b) };
            fn splat_byte(b: u8) -> Bytes = [vdupq_n_u8(b); 4];
            fn table(p: *const u8) -> Bytes = [vld1q_u8(p); 4];
            fn and(a: Bytes, b: Bytes) -> Bytes = four!(I, vandq_u8(a[I], b[I]));
            fn or(a: Bytes, b: Bytes) -> Bytes = four!(I, vorrq_u8(a[I], b[I]));
            fn add_bytes(a: Bytes, b: Bytes) -> Bytes = four!(I, vaddq_u8(a[I], b[I]));
            fn right<const N: u32>(a: Bytes) -> Bytes = four!(I, vshlq_u8(a[I], vdupq_n_s8(-(N as i8))));
            fn left<const N: u32>(a: Bytes) -> Bytes = four!(I, vshlq_u8(a[I], vdupq_n_s8(N as i8)));
            fn look_up(table: Bytes, index: Bytes) -> Bytes = four!(I, vqtbl1q_u8(table[I], index[I]));
            fn no_sum() -> Ints = [vdupq_n_s32(0); 4];
            fn biased_sum(_correction: i32) -> Ints = [vdupq_n_s32(0); 4];
            fn dot(sum: Ints, u: Bytes, a: *const i8) -> Ints = {
                let a = vreinterpretq_s8_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                four!(I, sdot(sum[I], vreinterpretq_s8_u8(u[I]), a))
            };
            fn dot_biased(sum: Ints, u: Bytes, a: *const i8) -> Ints = {
                let a = vreinterpretq_s8_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                four!(I, sdot(sum[I], vreinterpretq_s8_u8(veorq_u8(u[I], vdupq_n_u8(0x80))), a))
            };
            fn add_sums(a: Ints, b: Ints) -> Ints = four!(I, vaddq_s32(a[I], b[I]));
            fn floats(a: Ints) -> Floats = four!(I, vcvtq_f32_s32(a[I]));
            fn load(p: *const f32) -> Floats = four!(I, vld1q_f32(p.add(4 * I)));
            fn store(p: *mut f32, a: Floats) = for (i, a) in a.iter().enumerate() { vst1q_f32(p.add(4 * i), *a) };
            fn splat(x: f32) -> Floats = [vdupq_n_f32(x); 4];
            fn halves(p: *const u16) -> Floats = {
                let mut floats = [0.0; 16];
                for (i, x) in floats.iter_mut().enumerate() {
                    *x = half::f16::from_bits(p.add(i).read_unaligned()).to_f32();
                }
                Self::load(floats.as_ptr())
            };
            fn brains(p: *const u16) -> Floats =
                four!(I, vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.add(4 * I)))));
            fn signed(p: *const u8) -> Floats = {
                let all = vld1q_s8(p.cast());
                let (a, b) = (vmovl_s8(vget_low_s8(all)), vmovl_s8(vget_high_s8(all)));
                let words = [vget_low_s16(a), vget_high_s16(a), vget_low_s16(b), vget_high_s16(b)];
                four!(I, vcvtq_f32_s32(vmovl_s16(words[I])))
            };
            fn unsigned(p: *const u8) -> Floats = {
                let all = vld1q_u8(p);
                let (a, b) = (vmovl_u8(vget_low_u8(all)), vmovl_u8(vget_high_u8(all)));
                let words = [vget_low_u16(a), vget_high_u16(a), vget_low_u16(b), vget_high_u16(b)];
                four!(I, vcvtq_f32_u32(vmovl_u16(words[I])))
            };
            fn put_codes(p: *mut i8, a: Floats) = {
                let words = four!(I, vmovn_s32(vcvtnq_s32_f32(a[I])));
                let (low, high) = (vcombine_s16(words[0], words[1]), vcombine_s16(words[2], words[3]));
                vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)))
            };
            fn add(a: Floats, b: Floats) -> Floats = four!(I, vaddq_f32(a[I], b[I]));
            fn sub(a: Floats, b: Floats) -> Floats = four!(I, vsubq_f32(a[I], b[I]));
            fn mul(a: Floats, b: Floats) -> Floats = four!(I, vmulq_f32(a[I], b[I]));
            fn div(a: Floats, b: Floats) -> Floats = four!(I, vdivq_f32(a[I], b[I]));
            fn fma(a: Floats, b: Floats, c: Floats) -> Floats = four!(I, vfmaq_f32(c[I], a[I], b[I]));
            fn fnma(a: Floats, b: Floats, c: Floats) -> Floats = four!(I, vfmsq_f32(c[I], a[I], b[I]));
            fn max(a: Floats, b: Floats) -> Floats = four!(I, vbslq_f32(vcgtq_f32(a[I], b[I]), a[I], b[I]));
            fn min(a: Floats, b: Floats) -> Floats = four!(I, vbslq_f32(vcltq_f32(a[I], b[I]), a[I], b[I]));
            fn abs(a: Floats) -> Floats = four!(I, vabsq_f32(a[I]));
            fn round(a: Floats) -> Floats = four!(I, vrndnq_f32(a[I]));
            fn scale_by_power(a: Floats, n: Floats) -> Floats = four!(I, {
                let power = vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n[I]), vdupq_n_s32(127)));
                vmulq_f32(a[I], vreinterpretq_f32_s32(power))
            });
            fn total(a: Floats) -> f32 = vaddvq_f32(vaddq_f32(vaddq_f32(a[0], a[1]), vaddq_f32(a[2], a[3])));
            fn largest(a: Floats) -> f32 = vmaxvq_f32(vmaxq_f32(vmaxq_f32(a[0], a[1]), vmaxq_f32(a[2], a[3])));
        }
    };
}

impl Simd for Neon {
    const COLUMNS: usize = 3;

    common!();
}

impl Simd for NeonI8mm {
    const COLUMNS: usize = 2;
    const TWO: bool = true;

    common!();
    methods! {
        // Of rows 4 i to 4 i + 3 register i: those of the first two, of both columns each, in the first sums.
        fn columns(sums: [Ints; 2]) -> [Ints; 2] =
            [four!(I, vuzp1q_s32(sums[0][I], sums[1][I])), four!(I, vuzp2q_s32(sums[0][I], sums[1][I]))];
    }

    #[inline(always)]
    unsafe fn dot_two<const BIASED: bool>(sums: [Ints; 2], u: [Bytes; 2], a: [*const i8; 2]) -> [Ints; 2] {
        let mut sums = sums;
        // SAFETY: as of every method of `Simd`.
        unsafe {
            let a = vcombine_s8(vld1_s8(a[0]), vld1_s8(a[1]));
            let top = vdupq_n_u8(if BIASED { 0x80 } else { 0 });
            for i in 0..4 {
                let (first, second) = (vreinterpretq_u32_u8(u[0][i]), vreinterpretq_u32_u8(u[1][i]));
                let two = [vzip1q_u32(first, second), vzip2q_u32(first, second)];
                for (sums, rows) in sums.iter_mut().zip(two) {
                    let rows = veorq_u8(vreinterpretq_u8_u32(rows), top);
                    sums[i] = smmla(sums[i], vreinterpretq_s8_u8(rows), a);
                }
            }
        }
        sums
    }
}

/// Adds, per lane, the products of four signed bytes: the intrinsic is not in stable Rust yet.
///
/// # Safety
/// The machine has `dotprod`.
#[inline(always)]
unsafe fn sdot(mut sum: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: one instruction on registers, which the caller answers for.
    unsafe {
        std::arch::asm!(
            ".arch_extension dotprod",
            "sdot {s:v}.4s, {w:v}.16b, {a:v}.16b",
            s = inout(vreg) sum,
            w = in(vreg) w,
            a = in(vreg) a,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Adds the products of two rows of eight signed bytes with two columns: of the first row with both, of the second with both. No
/// intrinsic of stable Rust either.
///
/// # Safety
/// The machine has `i8mm`.
#[inline(always)]
unsafe fn smmla(mut sum: int32x4_t, rows: int8x16_t, columns: int8x16_t) -> int32x4_t {
    // SAFETY: one instruction on registers, which the caller answers for.
    unsafe {
        std::arch::asm!(
            ".arch_extension i8mm",
            "smmla {s:v}.4s, {w:v}.16b, {a:v}.16b",
            s = inout(vreg) sum,
            w = in(vreg) rows,
            a = in(vreg) columns,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
