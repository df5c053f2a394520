//! Q1_0: 128 weights in 18 bytes, 1.125 bits per weight.
//!
//! `w = ±d`, plus where the bit is set. Bytes: `d` f16, then 128 bits.
use crate::bits::half_at;
use crate::format::{Format, FormatId};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = if b[2 + i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q1_0,
    ggml_id: 41,
    name: "Q1_0",
    stem: "q1_0",
    block_len: 128,
    block_bytes: 2 + 16,
    decode,
    is_finite: |b| half_at(b, 0).is_finite(),
};
