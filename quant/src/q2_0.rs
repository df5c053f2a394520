//! Q2_0: 64 weights in 18 bytes, 2.25 bits per weight.
//!
//! `w = d * (q - 1)`. Bytes: `d` f16, then 64 bit pairs, four neighbours to a byte.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, scale, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = (f32::from(b[2 + i / 4] >> (2 * (i % 4)) & 3) - 1.0) * d;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -1.0, high: 2.0 };
    let d = scale::fit_half(x, weight, lattice);
    put_half(b, 0, d);
    let q = codes(x, lattice, d, 1);
    for (byte, q) in b[2..].iter_mut().zip(q.chunks_exact(4)) {
        *byte = q[0] | q[1] << 2 | q[2] << 4 | q[3] << 6;
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
    fields: &[BlockField::new("QS", 2, 16), BlockField::new("D", 0, 2)],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 16), SoaPart::Field("D")],
        place: |i| BitSource::Bit(16 + 2 * codes::of_pairs(i) + i % 2),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
