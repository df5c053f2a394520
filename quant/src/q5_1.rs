//! Q5_1: 32 weights in 24 bytes, 6 bits per weight.
//!
//! `w = d * q + m`. Bytes: `d` f16, `m` f16, 32 fifth bits (bit `i` for weight `i`), then Q4_0's nibbles.
use crate::bits::{finite_half, first_bad, half_at, half_nibble, put_fifths, put_half, put_nibbles, u32_at};
use crate::format::{BlockField, Format, FormatId};
use crate::search::affine;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, m, fifth) = (half_at(b, 0), half_at(b, 2), u32_at(b, 4));
    for (i, o) in out.iter_mut().enumerate() {
        let q = half_nibble(&b[8..24], i) | ((fifth >> i & 1) << 4) as u8;
        *o = f32::from(q) * d + m;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let fit = affine::fit_half(x, weight, 31.0);
    put_half(b, 0, fit.d);
    put_half(b, 2, fit.m);
    let q = fit.codes(x, 31.0);
    put_fifths(&mut b[4..8], &q);
    put_nibbles(&mut b[8..], &q);
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q5_1,
    ggml_id: 7,
    name: "Q5_1",
    stem: "q5_1",
    block_len: 32,
    block_bytes: 2 + 2 + 4 + 16,
    fields: &[BlockField::new("QS", 8, 16), BlockField::new("QH", 4, 4), BlockField::new("DM", 0, 4)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0) && finite_half(b, 2)),
};
