//! IQ4_XS: 256 weights in 136 bytes, 4.25 bits per weight.
//!
//! `w = d * (scale[j] - 32) * LEVELS[q]` for each of 8 sub-blocks `j` of 32, with IQ4_NL's levels. Bytes: `d` f16, the high
//! 2 bits of 8 scales, 4 of their low nibbles, then per sub-block 16 bytes of nibbles in Q4_0's order.
use crate::bits::{finite_half, first_bad, half_at, half_nibble, put_half, put_nibbles, u16_at};
use crate::codes::{self, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::iq4_nl::levels;
use crate::iq4_nl::LEVELS;
use crate::search::{two_level, Levels};

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

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let levels = levels();
    let block = two_level::scales(x, weight, 32, Levels(&levels), -32.0, 31.0);
    b.fill(0);
    put_half(b, 0, block.d);
    for j in 0..8 {
        let scale = (block.scales[j] + 32) as u8;
        b[2 + j / 4] |= scale >> 4 << (2 * (j % 4));
        b[4 + j / 2] |= (scale & 15) << (4 * (j % 2));
        let q = Levels(&levels).codes(&x[32 * j..][..32], block.sub(j));
        put_nibbles(&mut b[8 + 16 * j..][..16], &q);
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
    fields: &[BlockField::new("QS", 8, 128), BlockField::new("HEAD", 0, 8)],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 128), SoaPart::Field("HEAD")],
        place: |i| codes::nibbles(8, 16, i),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
