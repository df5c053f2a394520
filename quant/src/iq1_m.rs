//! IQ1_M: 256 weights in 56 bytes, 1.75 bits per weight.
//!
//! `w = d * (2 * scale[j] + 1) * (grid ± DELTA)` for each of 16 sub-blocks `j` of 16; the sign of the shift is per 8
//! weights. Bytes: 32 of grid indices (low 8 bits, for 8 weights each), 16 of two 3-bit high parts, each under its shift's
//! sign, then 4 words of four 3-bit scales; their top nibbles together are `d`, an f16.
use crate::bits::{first_bad, u16_at};
use crate::format::{BlockField, Format, FormatId};
use crate::grid::{DELTA, IQ1};
use crate::search::codebook::{Book, Signs};
use std::sync::OnceLock;

fn super_scale(b: &[u8]) -> f32 {
    let nibble = |i: usize| (u16_at(b, 48 + 2 * i) >> 12) << (4 * i);
    half::f16::from_bits(nibble(0) | nibble(1) | nibble(2) | nibble(3)).to_f32()
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = super_scale(b);
    for (l, eight) in out.chunks_exact_mut(8).enumerate() {
        let scale = u16_at(b, 48 + 2 * (l / 8)) >> (3 * (l / 2 % 4)) & 7;
        let step = d * f32::from(2 * scale + 1);
        let high = b[32 + l / 2] >> (4 * (l % 2));
        let index = usize::from(b[l]) | usize::from(high & 7) << 8;
        let shift = if high & 8 != 0 { -DELTA } else { DELTA };
        for (i, o) in eight.iter_mut().enumerate() {
            *o = step * (IQ1.value(index, i) + shift);
        }
    }
}

static BOOK: OnceLock<Book> = OnceLock::new();

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let book = BOOK.get_or_init(|| Book::new(&IQ1, Signs::ShiftPerGroup, 16, 1.0, 7));
    let coded = book.fit(x, weight);
    b.fill(0);
    for l in 0..32 {
        let (index, shifted) = (coded.entries[l] & 2047, coded.entries[l] >> 11);
        b[l] = index as u8;
        b[32 + l / 2] |= ((index >> 8 | shifted << 3) as u8) << (4 * (l % 2));
    }
    let d = half::f16::from_f32(coded.d).to_bits();
    for i in 0..4 {
        let scales = (0..4).fold(0, |word, s| word | u16::from(coded.scales[4 * i + s]) << (3 * s));
        let word = scales | (d >> (4 * i) & 15) << 12;
        b[48 + 2 * i..][..2].copy_from_slice(&word.to_le_bytes());
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Iq1M,
    ggml_id: 29,
    name: "IQ1_M",
    stem: "iq1_m",
    block_len: 256,
    block_bytes: 32 + 16 + 8,
    fields: &[BlockField::new("QS", 0, 32), BlockField::new("QH", 32, 16), BlockField::new("SC", 48, 8)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| super_scale(b).is_finite()),
};
