//! IQ4_XS: 256 weights in 136 bytes, 4.25 bits per weight.
//!
//! `w = d * (scale[j] - 32) * LEVELS[q]` for each of 8 sub-blocks `j` of 32, with IQ4_NL's levels. Bytes: `d` f16, the high
//! 2 bits of 8 scales, 4 of their low nibbles, then per sub-block 16 bytes of nibbles in Q4_0's order.
use crate::bits::{half_at, half_nibble, u16_at};
use crate::format::{Format, FormatId};
use crate::iq4_nl::LEVELS;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, high) = (half_at(b, 0), u16_at(b, 2));
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let scale = b[4 + j / 2] >> (4 * (j % 2)) & 15 | ((high >> (2 * j) & 3) << 4) as u8;
        let step = d * (f32::from(scale) - 32.0);
        for (i, o) in part.iter_mut().enumerate() {
            *o = step * f32::from(LEVELS[usize::from(half_nibble(&b[8 + 16 * j..][..16], i))]);
        }
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq4Xs,
    ggml_id: 23,
    name: "IQ4_XS",
    stem: "iq4_xs",
    block_len: 256,
    block_bytes: 2 + 2 + 4 + 128,
    decode,
    is_finite: |b| half_at(b, 0).is_finite(),
};
