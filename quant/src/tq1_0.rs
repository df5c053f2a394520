//! TQ1_0: 256 ternary weights in 54 bytes, 1.6875 bits per weight.
//!
//! `w = d * (t - 1)`. A byte holds five base-3 digits as the fraction `byte / 256`: multiplying by 3 brings the next one
//! to the front. Bytes: 48 of five digits (first 32 bytes: digit `n` of byte `m` is weight `32 * n + m`; next 16 likewise
//! from weight 160 on), 4 of four digits (weight `240 + 4 * n + m`), `d` f16.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{self, scale, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 52);
    for (i, o) in out.iter_mut().enumerate() {
        *o = (f32::from(codes::digit(b, i)) - 1.0) * d;
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -1.0, high: 1.0 };
    let d = scale::fit_half(x, weight, lattice);
    put_half(b, 52, d);
    let q = search::codes(x, lattice, d, 1);
    for (m, byte) in b[..52].iter_mut().enumerate() {
        let (first, stride) = match m {
            0..32 => (m, 32),
            32..48 => (160 + m - 32, 16),
            _ => (240 + m - 48, 4),
        };
        let digit = |n: usize| if m >= 48 && n == 4 { 0 } else { u16::from(q[first + n * stride]) };
        let value = (0..5).fold(0, |v, n| 3 * v + digit(n));
        *byte = ((256 * u32::from(value)).div_ceil(243)) as u8;
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Tq1_0,
    ggml_id: 34,
    name: "TQ1_0",
    stem: "tq1_0",
    block_len: 256,
    block_bytes: 48 + 4 + 2,
    fields: &[BlockField::new("QS", 0, 48), BlockField::new("QH", 48, 4), BlockField::new("D", 52, 2)],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 64), SoaPart::Field("D")],
        place: |i| BitSource::Digit(codes::of_pairs(i), i % 2),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 52)),
};
