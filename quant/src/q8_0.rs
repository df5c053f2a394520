//! Q8_0: 32 weights in 34 bytes, 8.5 bits per weight.
//!
//! `w = d * q`. Bytes: `d` f16, then 32 signed bytes.
use crate::bits::half_at;
use crate::format::{Format, FormatId};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (o, &q) in out.iter_mut().zip(&b[2..34]) {
        *o = f32::from(q as i8) * d;
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q8_0,
    ggml_id: 8,
    name: "Q8_0",
    stem: "q8_0",
    block_len: 32,
    block_bytes: 2 + 32,
    decode,
    is_finite: |b| half_at(b, 0).is_finite(),
};
