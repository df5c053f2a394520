//! Plain arrays, which the compiler turns into what vectors the target has.

use super::{methods, Simd, LANES};

/// No instructions of its own.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

type Bytes = [u8; 64];
type Ints = [i32; LANES];
type Floats = [f32; LANES];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> Floats {
    let mut out = [0.0; LANES];
    for (i, o) in out.iter_mut().enumerate() {
        *o = f(i);
    }
    out
}

#[inline(always)]
fn each_byte(f: impl Fn(usize) -> u8) -> Bytes {
    let mut out = [0; 64];
    for (i, o) in out.iter_mut().enumerate() {
        *o = f(i);
    }
    out
}

#[inline(always)]
fn dot(mut sum: Ints, u: Bytes, bias: i32, a: [i8; 4]) -> Ints {
    for (i, sum) in sum.iter_mut().enumerate() {
        for j in 0..4 {
            *sum += (i32::from(u[4 * i + j]) - bias) * i32::from(a[j]);
        }
    }
    sum
}

impl Simd for Portable {
    type B = Bytes;
    type I = Ints;
    type F = Floats;
    const COLUMNS: usize = 2;

    methods! {
        fn prefetch(_p: *const u8) = ();
        fn prefetch_second(_p: *const u8) = ();
        fn bytes(p: *const u8) -> Bytes = p.cast::<Bytes>().read_unaligned();
        fn put_bytes(p: *mut u8, b: Bytes) = p.cast::<Bytes>().write_unaligned(b);
        fn splat_byte(b: u8) -> Bytes = [b; 64];
        fn table(p: *const u8) -> Bytes = each_byte(|i| *p.add(i % 16));
        fn and(a: Bytes, b: Bytes) -> Bytes = each_byte(|i| a[i] & b[i]);
        fn or(a: Bytes, b: Bytes) -> Bytes = each_byte(|i| a[i] | b[i]);
        fn add_bytes(a: Bytes, b: Bytes) -> Bytes = each_byte(|i| a[i].wrapping_add(b[i]));
        fn right<const N: u32>(a: Bytes) -> Bytes = each_byte(|i| a[i] >> N);
        fn left<const N: u32>(a: Bytes) -> Bytes = each_byte(|i| a[i] << N);
        fn look_up(table: Bytes, index: Bytes) -> Bytes = each_byte(|i| table[usize::from(index[i] & 15)]);
        fn no_sum() -> Ints = [0; LANES];
        fn biased_sum(_correction: i32) -> Ints = [0; LANES];
        fn dot(sum: Ints, u: Bytes, a: *const i8) -> Ints = dot(sum, u, 0, a.cast::<[i8; 4]>().read_unaligned());
        fn dot_biased(sum: Ints, u: Bytes, a: *const i8) -> Ints =
            dot(sum, u, 128, a.cast::<[i8; 4]>().read_unaligned());
        fn add_sums(a: Ints, b: Ints) -> Ints = {
            let mut sums = a;
            sums.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            sums
        };
        fn floats(a: Ints) -> Floats = each(|i| a[i] as f32);
        fn load(p: *const f32) -> Floats = p.cast::<Floats>().read_unaligned();
        fn store(p: *mut f32, a: Floats) = p.cast::<Floats>().write_unaligned(a);
        fn splat(x: f32) -> Floats = [x; LANES];
        fn halves(p: *const u16) -> Floats = each(|i| half::f16::from_bits(p.add(i).read_unaligned()).to_f32());
        fn brains(p: *const u16) -> Floats = each(|i| f32::from_bits(u32::from(p.add(i).read_unaligned()) << 16));
        fn signed(p: *const u8) -> Floats = each(|i| f32::from(*p.add(i) as i8));
        fn unsigned(p: *const u8) -> Floats = each(|i| f32::from(*p.add(i)));
        fn put_codes(p: *mut i8, a: Floats) =
            for (i, x) in a.iter().enumerate() { *p.add(i) = x.round_ties_even() as i8 };
        fn add(a: Floats, b: Floats) -> Floats = each(|i| a[i] + b[i]);
        fn sub(a: Floats, b: Floats) -> Floats = each(|i| a[i] - b[i]);
        fn mul(a: Floats, b: Floats) -> Floats = each(|i| a[i] * b[i]);
        fn div(a: Floats, b: Floats) -> Floats = each(|i| a[i] / b[i]);
        fn fma(a: Floats, b: Floats, c: Floats) -> Floats = each(|i| a[i] * b[i] + c[i]);
        fn fnma(a: Floats, b: Floats, c: Floats) -> Floats = each(|i| c[i] - a[i] * b[i]);
        fn max(a: Floats, b: Floats) -> Floats = each(|i| if a[i] > b[i] { a[i] } else { b[i] });
        fn min(a: Floats, b: Floats) -> Floats = each(|i| if a[i] < b[i] { a[i] } else { b[i] });
        fn abs(a: Floats) -> Floats = each(|i| a[i].abs());
        fn round(a: Floats) -> Floats = each(|i| a[i].round_ties_even());
        fn scale_by_power(a: Floats, n: Floats) -> Floats =
            each(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23));
        fn total(a: Floats) -> f32 = a.iter().sum();
        fn largest(a: Floats) -> f32 = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    }
}
