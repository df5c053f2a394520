//! Q4_1: 32 weights in 20 bytes, 5 bits per weight.
//!
//! `w = d * q + m`. Bytes: `d` f16, `m` f16, then 16 bytes whose low nibbles are weights 0..16 and high nibbles 16..32.
use crate::bits::{finite_half, first_bad, half_at, half_nibble, put_half, put_nibbles};
use crate::format::{BlockField, Format, FormatId};
use crate::search::affine;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for (i, o) in out.iter_mut().enumerate() {
        *o = f32::from(half_nibble(&b[4..20], i)) * d + m;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let fit = affine::fit_half(x, weight, 15.0);
    put_half(b, 0, fit.d);
    put_half(b, 2, fit.m);
    put_nibbles(&mut b[4..], &fit.codes(x, 15.0));
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q4_1,
    ggml_id: 3,
    name: "Q4_1",
    stem: "q4_1",
    block_len: 32,
    block_bytes: 2 + 2 + 16,
    fields: &[BlockField::new("QS", 4, 16), BlockField::new("DM", 0, 4)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0) && finite_half(b, 2)),
};
