//! Q3_K: 256 weights in 110 bytes, 3.4375 bits per weight.
//!
//! `w = d * (scale[j] - 32) * (q - 4)` for each of 16 sub-blocks `j` of 16. Bytes: 32 of third bits (bit `i / 32` of byte
//! `i % 32`), 64 of bit pairs in Q2_K's order, 12 of 6-bit scales, `d` f16.
use crate::bits::half_at;
use crate::format::{Format, FormatId};

/// Scale `j` in 0..16, 6 bits: the low 4 in the nibbles of bytes 0..8, the high 2 in the pairs of bytes 8..12.
fn scale(packed: &[u8], j: usize) -> u8 {
    (packed[j % 8] >> (4 * (j / 8)) & 15) | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 108);
    for (i, o) in out.iter_mut().enumerate() {
        let (half, k, l) = (i / 128, i % 128 / 32, i % 32);
        let q = b[32 + 32 * half + l] >> (2 * k) & 3 | (b[l] >> (i / 32) & 1) << 2;
        *o = d * (f32::from(scale(&b[96..108], i / 16)) - 32.0) * (f32::from(q) - 4.0);
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q3K,
    ggml_id: 11,
    name: "Q3_K",
    stem: "q3_k",
    block_len: 256,
    block_bytes: 32 + 64 + 12 + 2,
    decode,
    is_finite: |b| half_at(b, 108).is_finite(),
};
