//! IQ2_XS: 256 weights in 74 bytes, 2.3125 bits per weight.
//!
//! `w = d * (0.5 + scale[j]) / 4 * ±grid` for each of 16 sub-blocks `j` of 16. Bytes: `d` f16, 32 words of 16 bits (9-bit
//! grid index under 7-bit sign pattern, for 8 weights each), 8 of two 4-bit scales.
use crate::bits::{finite_half, first_bad, half_at, put_half, u16_at};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{sign, signs, IQ2_XS};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (l, eight) in out.chunks_exact_mut(8).enumerate() {
        let (word, scale) = (u16_at(b, 2 + 2 * l), b[66 + l / 4] >> (4 * (l / 2 % 2)) & 15);
        let step = d * (0.5 + f32::from(scale)) * 0.25;
        let minus = signs(u32::from(word >> 9));
        for (i, o) in eight.iter_mut().enumerate() {
            *o = step * IQ2_XS.value(usize::from(word & 511), i) * sign(minus, i);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ2_XS, Signs::Even, 16, 0.125, 15));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    for l in 0..32 {
        let word = coded.entries[l] | u16::from(coded.minus[l] & 127) << 9;
        b[2 + 2 * l..][..2].copy_from_slice(&word.to_le_bytes());
    }
    for j in 0..16 {
        b[66 + j / 2] |= coded.scales[j] << (4 * (j % 2));
    }
}

/// Where bit `i` of a device's codes comes from. Codes have of each chunk of 64 weights the low eight bits of the indices and two
/// words of signs; then the indices' ninth bits.
fn place(i: usize) -> BitSource {
    if i >= 8 * 64 {
        return BitSource::Bit(16 + 16 * (i - 8 * 64) + 8);
    }
    let (chunk, bit) = (16 + i / 128 * 128, i % 128);
    if bit < 64 {
        return BitSource::Bit(chunk + bit / 8 * 16 + bit % 8);
    }
    let weight = codes::of_bits(bit - 64);
    codes::sign(chunk + weight / 8 * 16 + 9, weight % 8)
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq2Xs,
    ggml_id: 17,
    name: "IQ2_XS",
    stem: "iq2_xs",
    block_len: 256,
    block_bytes: 2 + 64 + 8,
    fields: &[BlockField::new("QS", 2, 64), BlockField::new("SC", 66, 8), BlockField::new("D", 0, 2)],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 64), SoaPart::Field("SC"), SoaPart::Codes("QH", 4), SoaPart::Field("D")],
        place,
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
