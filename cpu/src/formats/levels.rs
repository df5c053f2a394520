//! Formats whose four bits choose one of sixteen levels.

use super::{halves_of_nibbles, u16_at, FormatUnpacker};
use crate::layout::{Codes, FormatBlock, Scales, WeightLayout};
use pumex_quant::{iq4_nl, mxfp4};

/// `d * LEVELS[q]`
pub struct Iq4Nl;
/// `d * (scale - 32) * LEVELS[q]`
pub struct Iq4Xs;
/// `2^(e - 128) * LEVELS[q]`
pub struct Mxfp4;
/// `scale * LEVELS[q]` of 16 weights each
pub struct Nvfp4;

/// Levels with 128 added.
const fn shift_levels(levels: &[i8; 16]) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (levels[i] as i16 + 128) as u8;
        i += 1;
    }
    table
}

impl FormatUnpacker for Iq4Nl {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::Half, table: shift_levels(&iq4_nl::LEVELS), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        out.halves[0] = u16_at(b, 0);
        halves_of_nibbles(&b[2..18], &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Iq4Xs {
    const LEN: usize = 256;
    const BYTES: usize = 136;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::Byte, table: shift_levels(&iq4_nl::LEVELS), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        let high = u16_at(b, 2);
        out.d = u16_at(b, 0);
        for j in 0..8 {
            let scale = b[4 + j / 2] >> (4 * (j % 2)) & 15 | ((high >> (2 * j) & 3) << 4) as u8;
            out.scales[j] = scale.wrapping_sub(32);
        }
        for (bytes, codes) in b[8..136].chunks_exact(16).zip(out.codes.chunks_exact_mut(32)) {
            halves_of_nibbles(bytes, codes);
        }
    }
}

impl FormatUnpacker for Mxfp4 {
    const LEN: usize = 32;
    const BYTES: usize = 17;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::Float, table: shift_levels(&mxfp4::LEVELS), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        let e = b[0];
        out.floats[0] = f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 });
        halves_of_nibbles(&b[1..17], &mut out.codes[..32]);
    }
}

impl FormatUnpacker for Nvfp4 {
    const LEN: usize = 64;
    const BYTES: usize = 36;
    const LAYOUT: WeightLayout =
        WeightLayout { codes: Codes::Four, scales: Scales::Half16, table: shift_levels(&mxfp4::LEVELS), factor: 1.0 };

    #[inline(always)]
    fn split(b: &[u8], out: &mut FormatBlock) {
        for j in 0..4 {
            // Half of an E4M3 number, which a half holds exactly.
            let (exponent, mantissa) = (i32::from(b[j] >> 3 & 15), f32::from(b[j] & 7));
            let scale = match b[j] {
                0 | 0x7f => 0.0,
                _ if exponent == 0 => mantissa * 2f32.powi(-10),
                _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 8),
            };
            out.halves[j] = half::f16::from_f32(scale).to_bits();
            halves_of_nibbles(&b[4 + 8 * j..][..8], &mut out.codes[16 * j..][..16]);
        }
    }
}
