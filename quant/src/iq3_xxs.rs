//! IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits per weight.
//!
//! `w = d * (0.5 + scale[j]) / 2 * ±grid` for each of 8 sub-blocks `j` of 32. Bytes: `d` f16, 64 grid indices of 8 bits (for
//! 4 weights each), then per sub-block a word of four 7-bit sign patterns under a 4-bit scale.
use crate::bits::{finite_half, first_bad, half_at, put_half, u32_at};
use crate::codes::{self, signs_place, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{sign, signs, IQ3_XXS};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let word = u32_at(b, 66 + 4 * j);
        let step = d * (0.5 + (word >> 28) as f32) * 0.5;
        for (i, o) in part.iter_mut().enumerate() {
            let index = usize::from(b[2 + 8 * j + i / 4]);
            *o = step * IQ3_XXS.value(index, i % 4) * sign(signs(word >> (7 * (i / 8))), i % 8);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ3_XXS, Signs::Even, 32, 0.25, 15));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    for j in 0..8 {
        let signs = (0..4).fold(0, |word, l| word | u32::from(coded.minus[4 * j + l] & 127) << (7 * l));
        b[66 + 4 * j..][..4].copy_from_slice(&(signs | u32::from(coded.scales[j]) << 28).to_le_bytes());
    }
    b[2..66].iter_mut().zip(coded.entries).for_each(|(byte, entry)| *byte = entry as u8);
}

/// Words of signs, then the scales of all sub-blocks.
fn place(i: usize) -> BitSource {
    if i >= 8 * 32 {
        return BitSource::Bit(8 * 66 + 32 * ((i - 8 * 32) / 4) + 28 + i % 4);
    }
    signs_place(8 * 66 + i / 32 * 32, codes::of_bits(i % 32))
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq3Xxs,
    ggml_id: 18,
    name: "IQ3_XXS",
    stem: "iq3_xxs",
    block_len: 256,
    block_bytes: 2 + 64 + 32,
    fields: &[BlockField::new("QS", 2, 64), BlockField::new("SIGNS", 66, 32), BlockField::new("D", 0, 2)],
    codes: Some(Codes {
        soa: &[SoaPart::Field("QS"), SoaPart::Codes("SIGNS", 32), SoaPart::Codes("SC", 4), SoaPart::Field("D")],
        place,
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
