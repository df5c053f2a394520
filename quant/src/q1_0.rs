//! Q1_0: 128 weights in 18 bytes, 1.125 bits per weight.
//!
//! `w = ±d`, plus where the bit is set. Bytes: `d` f16, then 128 bits.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = if b[2 + i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let sums = x.iter().zip(weight).fold((0f32, 0f32), |s, (x, w)| (s.0 + w * x.abs(), s.1 + w));
    put_half(b, 0, if sums.1 > 0.0 { sums.0 / sums.1 } else { 0.0 });
    for (byte, eight) in b[2..].iter_mut().zip(x.chunks_exact(8)) {
        *byte = eight.iter().enumerate().fold(0, |bits, (i, x)| bits | u8::from(*x >= 0.0) << i);
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
    fields: &[BlockField::new("QS", 2, 16), BlockField::new("D", 0, 2)],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 16), SoaPart::Field("D")],
        place: |i| BitSource::Bit(16 + codes::of_bits(i)),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
