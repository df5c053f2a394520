//! IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits per weight.
//!
//! `w = d * (0.5 + scale[j]) / 2 * ±grid` for each of 8 sub-blocks `j` of 32. Bytes: `d` f16, 64 grid indices of 8 bits (for
//! 4 weights each), then per sub-block a word of four 7-bit sign patterns under a 4-bit scale.
use crate::bits::{half_at, u32_at};
use crate::format::{Format, FormatId};
use crate::grid::{sign, signs, IQ3_XXS};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let word = u32_at(b, 66 + 4 * j);
        let step = d * (0.5 + (word >> 28) as f32) * 0.5;
        for (i, o) in part.iter_mut().enumerate() {
            let index = usize::from(b[2 + 8 * j + i / 4]);
            *o = step * IQ3_XXS.value(index, i % 4) * sign(signs(word >> (7 * (i / 8))), i % 8);
        }
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq3Xxs,
    ggml_id: 18,
    name: "IQ3_XXS",
    stem: "iq3_xxs",
    block_len: 256,
    block_bytes: 2 + 64 + 32,
    decode,
    is_finite: |b| half_at(b, 0).is_finite(),
};
