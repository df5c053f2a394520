//! IQ2_S: 256 weights in 82 bytes, 2.5625 bits per weight.
//!
//! `w = d * (0.5 + scale[j]) / 4 * ±grid` for each of 16 sub-blocks `j` of 16. Bytes: `d` f16, 32 of grid indices (low 8
//! bits, for 8 weights each), 32 of sign patterns, 8 of the indices' high bit pairs, 8 of two 4-bit scales.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::codes::{self, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{sign, IQ2_S};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (l, eight) in out.chunks_exact_mut(8).enumerate() {
        let index = usize::from(b[2 + l]) | usize::from(b[66 + l / 4] >> (2 * (l % 4)) & 3) << 8;
        let step = d * (0.5 + f32::from(b[74 + l / 4] >> (4 * (l / 2 % 2)) & 15)) * 0.25;
        for (i, o) in eight.iter_mut().enumerate() {
            *o = step * IQ2_S.value(index, i) * sign(b[34 + l], i);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ2_S, Signs::Free, 16, 0.125, 15));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    b[34..66].copy_from_slice(&coded.minus);
    for l in 0..32 {
        b[2 + l] = coded.entries[l] as u8;
        b[66 + l / 4] |= ((coded.entries[l] >> 8) as u8) << (2 * (l % 4));
    }
    for j in 0..16 {
        b[74 + j / 2] |= coded.scales[j] << (4 * (j % 2));
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq2S,
    ggml_id: 22,
    name: "IQ2_S",
    stem: "iq2_s",
    block_len: 256,
    block_bytes: 2 + 32 + 32 + 8 + 8,
    fields: &[
        BlockField::new("QS", 2, 32),
        BlockField::new("SIGNS", 34, 32),
        BlockField::new("QH", 66, 8),
        BlockField::new("SC", 74, 8),
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
        place: |i| BitSource::Bit(8 * 34 + codes::of_bits(i)),
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
