//! TQ2_0: 256 ternary weights in 66 bytes, 2.0625 bits per weight.
//!
//! `w = d * (q - 1)`. Bytes: 64 of bit pairs in Q2_K's order, `d` f16.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_quarters};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, scale, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 64);
    for (i, o) in out.iter_mut().enumerate() {
        let q = b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
        *o = (f32::from(q) - 1.0) * d;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -1.0, high: 1.0 };
    let d = scale::fit_half(x, weight, lattice);
    put_half(b, 64, d);
    put_quarters(&mut b[..64], &codes(x, lattice, d, 1));
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Tq2_0,
    ggml_id: 35,
    name: "TQ2_0",
    stem: "tq2_0",
    block_len: 256,
    block_bytes: 64 + 2,
    fields: &[BlockField::new("QS", 0, 64), BlockField::new("D", 64, 2)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 64)),
};
