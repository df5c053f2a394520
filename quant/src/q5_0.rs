//! Q5_0: 32 weights in 22 bytes, 5.5 bits per weight.
//!
//! `w = d * (q - 16)`. Bytes: `d` f16, 32 fifth bits (bit `i` for weight `i`), then Q4_0's nibbles.
use crate::bits::{finite_half, first_bad, half_at, half_nibble, put_fifths, put_half, put_nibbles, u32_at};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, scale, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, fifth) = (half_at(b, 0), u32_at(b, 2));
    for (i, o) in out.iter_mut().enumerate() {
        let q = half_nibble(&b[6..22], i) | ((fifth >> i & 1) << 4) as u8;
        *o = (f32::from(q) - 16.0) * d;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -16.0, high: 15.0 };
    let d = scale::fit_half(x, weight, lattice);
    put_half(b, 0, d);
    let q = codes(x, lattice, d, 16);
    put_fifths(&mut b[2..6], &q);
    put_nibbles(&mut b[6..], &q);
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q5_0,
    ggml_id: 6,
    name: "Q5_0",
    stem: "q5_0",
    block_len: 32,
    block_bytes: 2 + 4 + 16,
    fields: &[BlockField::new("QS", 6, 16), BlockField::new("QH", 2, 4), BlockField::new("D", 0, 2)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
