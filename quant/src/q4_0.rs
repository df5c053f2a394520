//! Q4_0: 32 weights in 18 bytes, 4.5 bits per weight.
//!
//! `w = d * (q - 8)`. Bytes: `d` f16, then 16 bytes whose low nibbles are weights 0..16 and high nibbles 16..32.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_nibbles};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, scale, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, &q) in b[2..18].iter().enumerate() {
        out[i] = (f32::from(q & 15) - 8.0) * d;
        out[i + 16] = (f32::from(q >> 4) - 8.0) * d;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -8.0, high: 7.0 };
    let d = scale::fit_half(x, weight, lattice);
    put_half(b, 0, d);
    put_nibbles(&mut b[2..], &codes(x, lattice, d, 8));
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q4_0,
    ggml_id: 2,
    name: "Q4_0",
    stem: "q4_0",
    block_len: 32,
    block_bytes: 2 + 16,
    fields: &[BlockField::new("QS", 2, 16), BlockField::new("D", 0, 2)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
