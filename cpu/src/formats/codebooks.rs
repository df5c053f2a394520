//! Formats whose codes are entries of codebooks. Their weights are written out: six or sixteen values take three or four bits
//! each, which is more than the file has, and far quicker than looking entries up for every token.

use super::{u16_at, u32_at, FormatUnpacker};
use crate::layout::{Codes, FormatBlock, Scales, WeightLayout};
use pumex_quant::grid::{self, Grid};
use std::sync::LazyLock;

/// 256 entries of 8
pub struct Iq2Xxs;
/// 512 entries of 8
pub struct Iq2Xs;
/// 1024 entries of 8, signs of their own
pub struct Iq2S;
/// 256 entries of 4
pub struct Iq3Xxs;
/// 512 entries of 4
pub struct Iq3S;
/// 2048 entries of 8, and a shift per 32
pub struct Iq1S;
/// 2048 entries of 8, and a shift per 8
pub struct Iq1M;

/// Levels and, from `minus` on, the same below zero, with 128 added.
const fn both_signs(levels: &[u8], minus: usize) -> [u8; 16] {
    let mut table = [128; 16];
    let mut i = 0;
    while i < levels.len() {
        table[i] = 128 + levels[i];
        table[i + minus] = 128 - levels[i];
        i += 1;
    }
    table
}

/// Magnitudes that entries of eight choose from by two bits; code 4 and above is below zero.
const TWO_BITS: [u8; 16] = both_signs(&[8, 25, 43], 4);
/// Levels of ternary entries: 8 times -1, 0, 1 plus 1, and, from code 4 on, minus 1.
const SHIFTED: [u8; 16] = {
    let mut table = [128; 16];
    let mut i = 0;
    while i < 3 {
        table[i] = (128 + 8 * (i as i16 - 1) + 1) as u8;
        table[i + 4] = (128 + 8 * (i as i16 - 1) - 1) as u8;
        i += 1;
    }
    table
};

/// A codebook with a byte per value.
fn spread(grid: &Grid) -> Vec<u64> {
    let entry = |i: usize| (0..grid.width).fold(0, |e, j| e | (grid.level(i, j) as u64) << (8 * j));
    (0..grid.codes.len()).map(entry).collect()
}

static IQ2_XXS: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ2_XXS));
static IQ2_XS: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ2_XS));
static IQ2_S: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ2_S));
static IQ3_XXS: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ3_XXS));
static IQ3_S: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ3_S));
static IQ1: LazyLock<Vec<u64>> = LazyLock::new(|| spread(&grid::IQ1));

/// Eight bits, one in each byte.
#[inline(always)]
fn bits(eight: u8) -> u64 {
    // Every byte gets all bits, keeps its own, and the carry of an addition brings that one to the top.
    let own = (u64::from(eight) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    ((own + 0x00406070787c7e7f) >> 7) & 0x0101_0101_0101_0101
}

/// Codes of eight weights: levels, with bit `at` set below zero.
#[inline(always)]
fn put(codes: &mut [u8], entry: u64, minus: u8, at: u32) {
    codes.copy_from_slice(&(entry | bits(minus) << at).to_le_bytes());
}

impl FormatUnpacker for Iq2Xxs {
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte, table: TWO_BITS, factor: 0.125 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ2_XXS[..256];
        for j in 0..8 {
            let word = u32_at(b, 6 + 8 * j);
            out.scales[j] = (2 * (word >> 28) + 1) as u8;
            for l in 0..4 {
                let codes = &mut out.codes[32 * j + 8 * l..][..8];
                put(codes, book[usize::from(b[2 + 8 * j + l])], grid::signs(word >> (7 * l)), 2);
            }
        }
    }
}

impl FormatUnpacker for Iq2Xs {
    const LEN: usize = 256;
    const BYTES: usize = 74;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte16, table: TWO_BITS, factor: 0.125 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ2_XS[..512];
        for j in 0..16 {
            out.scales[j] = 2 * (b[66 + j / 2] >> (4 * (j % 2)) & 15) + 1;
        }
        for (l, codes) in out.codes.chunks_exact_mut(8).enumerate() {
            let word = u16_at(b, 2 + 2 * l);
            put(codes, book[usize::from(word & 511)], grid::signs(u32::from(word >> 9)), 2);
        }
    }
}

impl FormatUnpacker for Iq2S {
    const LEN: usize = 256;
    const BYTES: usize = 82;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte16, table: TWO_BITS, factor: 0.125 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ2_S[..1024];
        for j in 0..16 {
            out.scales[j] = 2 * (b[74 + j / 2] >> (4 * (j % 2)) & 15) + 1;
        }
        for (l, codes) in out.codes.chunks_exact_mut(8).enumerate() {
            let index = usize::from(b[2 + l]) | usize::from(b[66 + l / 4] >> (2 * (l % 4)) & 3) << 8;
            put(codes, book[index], b[34 + l], 2);
        }
    }
}

impl FormatUnpacker for Iq3Xxs {
    const LEN: usize = 256;
    const BYTES: usize = 98;
    const LAYOUT: WeightLayout = WeightLayout {
        codes: Codes::Four,
        scales: Scales::Byte,
        table: both_signs(&[4, 12, 20, 28, 36, 44, 52, 62], 8),
        factor: 0.25,
    };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ3_XXS[..256];
        for j in 0..8 {
            let word = u32_at(b, 66 + 4 * j);
            out.scales[j] = (2 * (word >> 28) + 1) as u8;
            for l in 0..4 {
                let at = 2 + 8 * j + 2 * l;
                let entry = book[usize::from(b[at])] | book[usize::from(b[at + 1])] << 32;
                put(&mut out.codes[32 * j + 8 * l..][..8], entry, grid::signs(word >> (7 * l)), 3);
            }
        }
    }
}

impl FormatUnpacker for Iq3S {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const LAYOUT: WeightLayout = WeightLayout {
        codes: Codes::Four,
        scales: Scales::Byte,
        table: both_signs(&[1, 3, 5, 7, 9, 11, 13, 15], 8),
        factor: 1.0,
    };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ3_S[..512];
        for j in 0..8 {
            out.scales[j] = 2 * (b[106 + j / 2] >> (4 * (j % 2)) & 15) + 1;
            for l in 0..4 {
                let index = |i: usize| usize::from(b[2 + 8 * j + i]) | usize::from(b[66 + j] >> i & 1) << 8;
                let entry = book[index(2 * l)] | book[index(2 * l + 1)] << 32;
                put(&mut out.codes[32 * j + 8 * l..][..8], entry, b[74 + 4 * j + l], 3);
            }
        }
    }
}

impl FormatUnpacker for Iq1S {
    const LEN: usize = 256;
    const BYTES: usize = 50;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte, table: SHIFTED, factor: 0.125 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 0);
        let book = &IQ1[..2048];
        for j in 0..8 {
            let word = u16_at(b, 34 + 2 * j);
            out.scales[j] = (2 * (word >> 12 & 7) + 1) as u8;
            let minus = if word >> 15 == 1 { 255 } else { 0 };
            for l in 0..4 {
                let index = usize::from(b[2 + 4 * j + l]) | usize::from(word >> (3 * l) & 7) << 8;
                put(&mut out.codes[32 * j + 8 * l..][..8], book[index], minus, 2);
            }
        }
    }
}

impl FormatUnpacker for Iq1M {
    const LEN: usize = 256;
    const BYTES: usize = 56;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte16, table: SHIFTED, factor: 0.125 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = (0..4).fold(0, |d, i| d | u16_at(b, 48 + 2 * i) >> 12 << (4 * i));
        let book = &IQ1[..2048];
        for j in 0..16 {
            out.scales[j] = (2 * (u16_at(b, 48 + 2 * (j / 4)) >> (3 * (j % 4)) & 7) + 1) as u8;
        }
        for (l, codes) in out.codes.chunks_exact_mut(8).enumerate() {
            let high = b[32 + l / 2] >> (4 * (l % 2));
            let index = usize::from(b[l]) | usize::from(high & 7) << 8;
            put(codes, book[index], if high & 8 != 0 { 255 } else { 0 }, 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_one_to_a_byte() {
        for eight in 0..=255u8 {
            let found = bits(eight).to_le_bytes();
            assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7].map(|i| eight >> i & 1), "{eight:08b}");
        }
    }
}
