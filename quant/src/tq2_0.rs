//! TQ2_0: 256 ternary weights in 66 bytes, 2.0625 bits per weight.
//!
//! `w = d * (q - 1)`. Bytes: 64 of bit pairs in Q2_K's order, `d` f16.
use crate::bits::half_at;
use crate::format::{Format, FormatId};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 64);
    for (i, o) in out.iter_mut().enumerate() {
        let q = b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
        *o = (f32::from(q) - 1.0) * d;
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Tq2_0,
    ggml_id: 35,
    name: "TQ2_0",
    stem: "tq2_0",
    block_len: 256,
    block_bytes: 64 + 2,
    decode,
    is_finite: |b| half_at(b, 64).is_finite(),
};
