//! Q2_0: 64 weights in 18 bytes, 2.25 bits per weight.
//!
//! `w = d * (q - 1)`. Bytes: `d` f16, then 64 bit pairs, four neighbours to a byte.
use crate::bits::half_at;
use crate::format::{Format, FormatId};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = (f32::from(b[2 + i / 4] >> (2 * (i % 4)) & 3) - 1.0) * d;
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q2_0,
    ggml_id: 42,
    name: "Q2_0",
    stem: "q2_0",
    block_len: 64,
    block_bytes: 2 + 16,
    decode,
    is_finite: |b| half_at(b, 0).is_finite(),
};
