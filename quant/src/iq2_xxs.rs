//! IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits per weight.
//!
//! `w = d * (0.5 + scale[j]) / 4 * ±grid` for each of 8 sub-blocks `j` of 32. Bytes: `d` f16, then per sub-block 4 grid
//! indices of 8 bits and a word of four 7-bit sign patterns under a 4-bit scale.
use crate::bits::{finite_half, first_bad, half_at, put_half, u32_at};
use crate::codes::{self, signs_place, BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{sign, signs, IQ2_XXS};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let at = 2 + 8 * j;
        let word = u32_at(b, at + 4);
        let step = d * (0.5 + (word >> 28) as f32) * 0.25;
        for (l, eight) in part.chunks_exact_mut(8).enumerate() {
            let minus = signs(word >> (7 * l));
            for (i, o) in eight.iter_mut().enumerate() {
                *o = step * IQ2_XXS.value(usize::from(b[at + l]), i) * sign(minus, i);
            }
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ2_XXS, Signs::Even, 32, 0.125, 15));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    for j in 0..8 {
        let mut word = u32::from(coded.scales[j]) << 28;
        for l in 0..4 {
            b[2 + 8 * j + l] = coded.entries[4 * j + l] as u8;
            word |= u32::from(coded.minus[4 * j + l] & 127) << (7 * l);
        }
        b[6 + 8 * j..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Where bit `i` of a device's codes comes from. Codes have of each sub-block its indices and a word of signs; then the scales of all.
fn place(i: usize) -> BitSource {
    if i >= 8 * 64 {
        return BitSource::Bit(16 + 64 * ((i - 8 * 64) / 4) + 60 + i % 4);
    }
    let (block, bit) = (16 + i / 64 * 64, i % 64);
    if bit < 32 {
        return BitSource::Bit(block + bit);
    }
    signs_place(block + 32, codes::of_bits(bit - 32))
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq2Xxs,
    ggml_id: 16,
    name: "IQ2_XXS",
    stem: "iq2_xxs",
    block_len: 256,
    block_bytes: 2 + 8 * 8,
    fields: &[BlockField::new("QS", 2, 64), BlockField::new("D", 0, 2)],
    codes: Some(Codes { soa: &[SoaPart::Codes("QS", 64), SoaPart::Codes("SC", 4), SoaPart::Field("D")], place }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
