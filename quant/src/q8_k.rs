//! Q8_K: 256 weights in 292 bytes, 9.125 bits per weight; an intermediate of integer kernels, rarely stored.
//!
//! `w = d * q`. Bytes: `d` f32, 256 signed bytes, then the sums of each 16 of them as i16, which decoding does not need.
use crate::format::{Format, FormatId};

fn scale(b: &[u8]) -> f32 {
    f32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = scale(b);
    for (o, q) in out.iter_mut().zip(&b[4..260]) {
        *o = d * f32::from(*q as i8);
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q8K,
    ggml_id: 15,
    name: "Q8_K",
    stem: "q8_k",
    block_len: 256,
    block_bytes: 4 + 256 + 32,
    decode,
    is_finite: |b| scale(b).is_finite(),
};
