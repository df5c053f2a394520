//! IQ3_S: 256 weights in 110 bytes, 3.4375 bits per weight.
//!
//! `w = d * (1 + 2 * scale[j]) * ±grid` for each of 8 sub-blocks `j` of 32. Bytes: `d` f16, 64 of grid indices (low 8 bits,
//! for 4 weights each), 8 of the indices' ninth bits, 32 of sign patterns, 4 of two 4-bit scales.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{sign, IQ3_S};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let scale = b[106 + j / 2] >> (4 * (j % 2)) & 15;
        let step = d * (1.0 + 2.0 * f32::from(scale));
        for (i, o) in part.iter_mut().enumerate() {
            let index = usize::from(b[2 + 8 * j + i / 4]) | usize::from(b[66 + j] >> (i / 4) & 1) << 8;
            *o = step * IQ3_S.value(index, i % 4) * sign(b[74 + 4 * j + i / 8], i % 8);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ3_S, Signs::Free, 32, 1.0, 15));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    for (i, entry) in coded.entries.iter().enumerate() {
        b[2 + i] = *entry as u8;
        b[66 + i / 8] |= ((entry >> 8) as u8) << (i % 8);
    }
    b[74..106].copy_from_slice(&coded.minus);
    for j in 0..8 {
        b[106 + j / 2] |= coded.scales[j] << (4 * (j % 2));
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq3S,
    ggml_id: 21,
    name: "IQ3_S",
    stem: "iq3_s",
    block_len: 256,
    block_bytes: 2 + 64 + 8 + 32 + 4,
    fields: &[
        BlockField::new("QS", 2, 64),
        BlockField::new("SIGNS", 74, 32),
        BlockField::new("QH", 66, 8),
        BlockField::new("SC", 106, 4),
        BlockField::new("D", 0, 2),
    ],
    codes: Some(Codes {
        soa: &[
            SoaPart::Field("QS"),
            SoaPart::Codes("SIGNS", 32),
            SoaPart::Field("QH"),
            SoaPart::Field("SC"),
            SoaPart::Field("D"),
        ],
        place: |i| BitSource::Bit(8 * 74 + codes::of_bits(i)),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
