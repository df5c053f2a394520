//! Formats of blocks of 256 with scales of scales.

use super::{add_bit, eight, from, halves_of_nibbles, plus, put_eight, times_8, u16_at, FormatUnpacker, PLAIN};
use crate::layout::{Codes, FormatBlock, Scales, WeightLayout};

/// `d * scale * q - dmin * min`, two bits
pub struct Q2K;
/// `d * scale * (q - 4)`
pub struct Q3K;
/// `d * scale * q - dmin * min`, four bits
pub struct Q4K;
/// `d * scale * q - dmin * min`, five bits
pub struct Q5K;
/// `d * scale * (q - 32)`
pub struct Q6K;
/// `d * q`
pub struct Q8K;

/// 256 codes of two bits: pair `k` of byte `l` of each half of 32 bytes is code `32 * k + l` of that half.
#[inline(always)]
pub(super) fn quarters(bytes: &[u8], codes: &mut [u8; 256]) {
    for half in 0..2 {
        for k in 0..4 {
            for at in (0..32).step_by(8) {
                let q = eight(bytes, 32 * half + at);
                put_eight(codes, 128 * half + 32 * k + at, q >> (2 * k) & times_8(3));
            }
        }
    }
}

/// Scales and minima, 6 bits each, of Q4_K and Q5_K.
#[inline(always)]
fn scale_mins(packed: &[u8], out: &mut FormatBlock) {
    for j in 0..4 {
        let (a, b, c) = (packed[j], packed[j + 4], packed[j + 8]);
        (out.scales[j], out.mins[j]) = (a & 63, b & 63);
        (out.scales[j + 4], out.mins[j + 4]) = (c & 15 | a >> 6 << 4, c >> 4 | b >> 6 << 4);
    }
}

/// Low nibbles of runs of 32 bytes are 32 codes, high nibbles the next.
#[inline(always)]
fn runs(bytes: &[u8], codes: &mut [u8; 256]) {
    for (bytes, codes) in bytes.chunks_exact(32).zip(codes.chunks_exact_mut(64)) {
        halves_of_nibbles(bytes, codes);
    }
}

impl FormatUnpacker for Q2K {
    const LEN: usize = 256;
    const BYTES: usize = 84;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Two, scales: Scales::Byte16Min, table: PLAIN, factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        (out.d, out.dmin) = (u16_at(b, 80), u16_at(b, 82));
        for j in 0..16 {
            (out.scales[j], out.mins[j]) = (b[j] & 15, b[j] >> 4);
        }
        quarters(&b[16..80], &mut out.codes);
    }
}

impl FormatUnpacker for Q3K {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Three, scales: Scales::Byte16, table: from(4), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 108);
        let packed = &b[96..108];
        for j in 0..16 {
            let scale = (packed[j % 8] >> (4 * (j / 8)) & 15) | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
            out.scales[j] = scale.wrapping_sub(32);
        }
        quarters(&b[32..96], &mut out.codes);
        for (k, codes) in out.codes.chunks_exact_mut(32).enumerate() {
            add_bit(&b[..32], k, codes, 2);
        }
    }
}

impl FormatUnpacker for Q4K {
    const LEN: usize = 256;
    const BYTES: usize = 144;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::ByteMin, table: PLAIN, factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        (out.d, out.dmin) = (u16_at(b, 0), u16_at(b, 2));
        scale_mins(&b[4..16], out);
        runs(&b[16..144], &mut out.codes);
    }
}

impl FormatUnpacker for Q5K {
    const LEN: usize = 256;
    const BYTES: usize = 176;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Five, scales: Scales::ByteMin, table: plus(0), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        (out.d, out.dmin) = (u16_at(b, 0), u16_at(b, 2));
        scale_mins(&b[4..16], out);
        runs(&b[48..176], &mut out.codes);
        for (j, codes) in out.codes.chunks_exact_mut(32).enumerate() {
            add_bit(&b[16..48], j, codes, 4);
        }
    }
}

impl FormatUnpacker for Q6K {
    const LEN: usize = 256;
    const BYTES: usize = 210;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Six, scales: Scales::Byte16, table: plus(128 - 32), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.d = u16_at(b, 208);
        out.scales.copy_from_slice(&b[192..208]);
        for half in 0..2 {
            for k in 0..4 {
                let low = &b[64 * half + 32 * (k % 2)..][..32];
                let high = &b[128 + 32 * half..][..32];
                let codes = &mut out.codes[128 * half + 32 * k..][..32];
                for at in (0..32).step_by(8) {
                    let low = eight(low, at) >> (4 * (k / 2)) & times_8(15);
                    put_eight(codes, at, low | (eight(high, at) >> (2 * k) & times_8(3)) << 4);
                }
            }
        }
    }
}

impl FormatUnpacker for Q8K {
    const LEN: usize = 256;
    const BYTES: usize = 292;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Eight, scales: Scales::Float, table: plus(0), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.floats = [f32::from_le_bytes([b[0], b[1], b[2], b[3]]); 8];
        for (code, q) in out.codes.iter_mut().zip(&b[4..260]) {
            *code = q ^ 0x80;
        }
    }
}
