//! Q2_K: 256 weights in 84 bytes, 2.625 bits per weight.
//!
//! `w = d * scale[j] * q - dmin * min[j]` for each of 16 sub-blocks `j` of 16. Bytes: 16 of scale (low nibble) and minimum
//! (high nibble), 64 of bit pairs, `d` f16, `dmin` f16. Each half of 128 weights uses 32 bytes: pair `k` of byte `l` is
//! weight `32 * k + l`.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_quarters};
use crate::format::{BlockField, Format, FormatId};
use crate::search::two_level;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(b, 80), half_at(b, 82));
    for (i, o) in out.iter_mut().enumerate() {
        let (half, k, l) = (i / 128, i % 128 / 32, i % 32);
        let q = b[16 + 32 * half + l] >> (2 * k) & 3;
        let pair = b[i / 16];
        *o = d * f32::from(pair & 15) * f32::from(q) - dmin * f32::from(pair >> 4);
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let block = two_level::affine(x, weight, 16, 3.0, 15.0);
    put_half(b, 80, block.d);
    put_half(b, 82, block.dmin);
    for (byte, (scale, min)) in b.iter_mut().zip(block.scales.iter().zip(&block.mins)) {
        *byte = scale | min << 4;
    }
    let q = block.codes(x, 16, 3.0);
    put_quarters(&mut b[16..80], &q);
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q2K,
    ggml_id: 10,
    name: "Q2_K",
    stem: "q2_k",
    block_len: 256,
    block_bytes: 16 + 64 + 2 + 2,
    fields: &[BlockField::new("QS", 16, 64), BlockField::new("SC", 0, 16), BlockField::new("DM", 80, 4)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 80) && finite_half(b, 82)),
};
