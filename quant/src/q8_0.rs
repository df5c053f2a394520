//! Q8_0: 32 weights in 34 bytes, 8.5 bits per weight.
//!
//! `w = d * q`. Bytes: `d` f16, then 32 signed bytes.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{inverse, round, to_half};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (o, &q) in out.iter_mut().zip(&b[2..34]) {
        *o = f32::from(q as i8) * d;
    }
}

/// With 255 steps the scale that keeps the largest weight is as good as any; codes use the scale as stored.
fn encode(x: &[f32], _: &[f32], b: &mut [u8]) {
    let largest = x.iter().fold(0f32, |m, x| m.max(x.abs()));
    let d = to_half(largest / 127.0);
    put_half(b, 0, d);
    let inverse = inverse(d);
    for (q, x) in b[2..].iter_mut().zip(x) {
        *q = round((x * inverse).clamp(-127.0, 127.0)) as i8 as u8;
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
    fields: &[BlockField::new("QS", 2, 32), BlockField::new("D", 0, 2)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
