//! Formats of one, one and a half, and two bits.

use super::k::quarters;
use super::{from, u16_at, FormatUnpacker};
use crate::layout::{Codes, FormatBlock, Scales, WeightLayout};
use pumex_quant::codes::digit;

/// `±d`
pub struct Q1_0;
/// `d * (q - 1)`
pub struct Q2_0;
/// `d * (t - 1)`, five digits to a byte
pub struct Tq1_0;
/// `d * (q - 1)`, in the order of Q2_K
pub struct Tq2_0;

/// Minus one and one.
const SIGNS: [u8; 16] = {
    let mut table = [128; 16];
    table[0] = 127;
    table[1] = 129;
    table
};

impl FormatUnpacker for Q1_0 {
    const LEN: usize = 128;
    const BYTES: usize = 18;
    const LAYOUT: WeightLayout = WeightLayout { codes: Codes::Two, scales: Scales::Half, table: SIGNS, factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[..4].fill(u16_at(b, 0));
        for (i, code) in out.codes[..128].iter_mut().enumerate() {
            *code = b[2 + i / 8] >> (i % 8) & 1;
        }
    }
}

impl FormatUnpacker for Q2_0 {
    const LEN: usize = 64;
    const BYTES: usize = 18;
    const LAYOUT: WeightLayout = WeightLayout { codes: Codes::Two, scales: Scales::Half, table: from(1), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[..2].fill(u16_at(b, 0));
        for (i, code) in out.codes[..64].iter_mut().enumerate() {
            *code = b[2 + i / 4] >> (2 * (i % 4)) & 3;
        }
    }
}

impl FormatUnpacker for Tq1_0 {
    const LEN: usize = 256;
    const BYTES: usize = 54;
    const LAYOUT: WeightLayout = WeightLayout { codes: Codes::Two, scales: Scales::Byte, table: from(1), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 52);
        out.scales[..8].fill(1);
        for (i, code) in out.codes.iter_mut().enumerate() {
            *code = digit(b, i);
        }
    }
}

impl FormatUnpacker for Tq2_0 {
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const LAYOUT: WeightLayout = WeightLayout { codes: Codes::Two, scales: Scales::Byte, table: from(1), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 64);
        out.scales[..8].fill(1);
        quarters(&b[..64], &mut out.codes);
    }
}
