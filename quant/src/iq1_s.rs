//! IQ1_S: 256 weights in 50 bytes, 1.5625 bits per weight.
//!
//! `w = d * (2 * scale[j] + 1) * (grid ± DELTA)` for each of 8 sub-blocks `j` of 32; grid values are -1, 0, 1. Bytes: `d`
//! f16, 32 of grid indices (low 8 bits, for 8 weights each), then per sub-block a word of four 3-bit high parts, a 3-bit
//! scale and the sign of the shift.
use crate::bits::{finite_half, first_bad, half_at, put_half, u16_at};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{DELTA, IQ1};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let word = u16_at(b, 34 + 2 * j);
        let step = d * f32::from(2 * (word >> 12 & 7) + 1);
        let shift = if word >> 15 == 1 { -DELTA } else { DELTA };
        for (i, o) in part.iter_mut().enumerate() {
            let index = usize::from(b[2 + 4 * j + i / 8]) | usize::from(word >> (3 * (i / 8)) & 7) << 8;
            *o = step * (IQ1.value(index, i % 8) + shift);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ1, Signs::ShiftPerSub, 32, 1.0, 7));
    let coded = book.fit(x, weight);
    b.fill(0);
    put_half(b, 0, coded.d);
    for j in 0..8 {
        let mut word = u16::from(coded.scales[j]) << 12 | (coded.entries[4 * j] >> 11) << 15;
        for l in 0..4 {
            let index = coded.entries[4 * j + l] & 2047;
            b[2 + 4 * j + l] = index as u8;
            word |= index >> 8 << (3 * l);
        }
        b[34 + 2 * j..][..2].copy_from_slice(&word.to_le_bytes());
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq1S,
    ggml_id: 19,
    name: "IQ1_S",
    stem: "iq1_s",
    block_len: 256,
    block_bytes: 2 + 32 + 16,
    fields: &[BlockField::new("QS", 2, 32), BlockField::new("QH", 34, 16), BlockField::new("D", 0, 2)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0)),
};
