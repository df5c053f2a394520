//! Formats of blocks of 32 with one scale each.

use super::{eight, from, halves_of_nibbles, plus, put_eight, times_8, u16_at, u32_at, FormatUnpacker, PLAIN};
use crate::layout::{Codes, FormatBlock, Scales, WeightLayout};

/// `d * (q - 8)`
pub struct Q4_0;
/// `d * q + m`
pub struct Q4_1;
/// `d * (q - 16)`
pub struct Q5_0;
/// `d * q + m`
pub struct Q5_1;
/// `d * q`
pub struct Q8_0;

/// The sign of a half, for minima are taken off.
const SIGN: u16 = 0x8000;

/// Adds the fifth bits to 32 codes.
#[inline(always)]
fn fifths(bits: u32, codes: &mut [u8]) {
    for (i, q) in codes.iter_mut().enumerate() {
        *q |= ((bits >> i & 1) << 4) as u8;
    }
}

impl FormatUnpacker for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const LAYOUT: WeightLayout = WeightLayout { codes: Codes::Four, scales: Scales::Half, table: from(8), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[0] = u16_at(b, 0);
        halves_of_nibbles(&b[2..18], &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::HalfMin, table: PLAIN, factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        (out.halves[0], out.half_mins[0]) = (u16_at(b, 0), u16_at(b, 2) ^ SIGN);
        halves_of_nibbles(&b[4..20], &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Five, scales: Scales::Half, table: plus(128 - 16), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[0] = u16_at(b, 0);
        halves_of_nibbles(&b[6..22], &mut out.codes[..32]);
        fifths(u32_at(b, 2), &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Five, scales: Scales::HalfMin, table: plus(0), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        (out.halves[0], out.half_mins[0]) = (u16_at(b, 0), u16_at(b, 2) ^ SIGN);
        halves_of_nibbles(&b[8..24], &mut out.codes[..32]);
        fifths(u32_at(b, 4), &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Eight, scales: Scales::Half, table: plus(0), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[0] = u16_at(b, 0);
        for at in (0..32).step_by(8) {
            put_eight(&mut out.codes, at, eight(b, 2 + at) ^ times_8(0x80));
        }
    }
}
