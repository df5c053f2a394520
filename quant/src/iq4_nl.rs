//! IQ4_NL: 32 weights in 18 bytes, 4.5 bits per weight.
//!
//! `w = d * LEVELS[q]`: sixteen levels, denser around zero. Bytes: `d` f16, then Q4_0's nibbles.
use crate::bits::{finite_half, first_bad, half_at, half_nibble, put_half, put_nibbles};
use crate::codes::{self, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{scale, Levels};

/// The levels, also of IQ4_XS.
pub const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(LEVELS[usize::from(half_nibble(&b[2..18], i))]);
    }
}

/// The levels as floats.
pub(crate) fn levels() -> [f32; 16] {
    LEVELS.map(f32::from)
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let levels = levels();
    let d = scale::fit_half(x, weight, Levels(&levels));
    put_half(b, 0, d);
    put_nibbles(&mut b[2..], &Levels(&levels).codes(x, d));
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq4Nl,
    ggml_id: 20,
    name: "IQ4_NL",
    stem: "iq4_nl",
    block_len: 32,
    block_bytes: 2 + 16,
    fields: &[BlockField::new("QS", 2, 16), BlockField::new("D", 0, 2)],
    codes: Some(Codes { soa: &[SoaPart::Codes("QS", 16), SoaPart::Field("D")], place: |i| codes::nibbles(2, 16, i) }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
