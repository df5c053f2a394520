//! Q3_K: 256 weights in 110 bytes, 3.4375 bits per weight.
//!
//! `w = d * (scale[j] - 32) * (q - 4)` for each of 16 sub-blocks `j` of 16. Bytes: 32 of third bits (bit `i / 32` of byte
//! `i % 32`), 64 of bit pairs in Q2_K's order, 12 of 6-bit scales, `d` f16.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_quarters};
use crate::codes::{BitSource, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, two_level, Integers};

/// Scale `j` in 0..16, 6 bits: the low 4 in the nibbles of bytes 0..8, the high 2 in the pairs of bytes 8..12.
fn scale(packed: &[u8], j: usize) -> u8 {
    (packed[j % 8] >> (4 * (j / 8)) & 15) | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 108);
    for (i, o) in out.iter_mut().enumerate() {
        let (half, k, l) = (i / 128, i % 128 / 32, i % 32);
        let q = b[32 + 32 * half + l] >> (2 * k) & 3 | (b[l] >> (i / 32) & 1) << 2;
        *o = d * (f32::from(scale(&b[96..108], i / 16)) - 32.0) * (f32::from(q) - 4.0);
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -4.0, high: 3.0 };
    let block = two_level::scales(x, weight, 16, lattice, -32.0, 31.0);
    b.fill(0);
    put_half(b, 108, block.d);
    let mut q = [0u8; 256];
    for j in 0..16 {
        let scale = (block.scales[j] + 32) as u8;
        b[96 + j % 8] |= (scale & 15) << (4 * (j / 8));
        b[104 + j % 4] |= scale >> 4 << (2 * (j / 4));
        q[16 * j..][..16].copy_from_slice(&codes(&x[16 * j..][..16], lattice, block.sub(j), 4));
    }
    for (i, q) in q.iter_mut().enumerate() {
        b[i % 32] |= *q >> 2 << (i / 32);
        *q &= 3;
    }
    put_quarters(&mut b[32..96], &q);
}

/// Bit `n` of the code of weight `i`.
fn bit(i: usize, n: usize) -> BitSource {
    match n {
        2 => BitSource::Bit(8 * (i % 32) + i / 32),
        _ => BitSource::Bit(8 * (32 + i / 128 * 32 + i % 32) + 2 * (i / 32 % 4) + n),
    }
}

/// A chunk is 16 weights of each quarter of 128. Its four words have the codes of quarter 0 at bits 0, of 1 at 3, and the low two
/// bits of those of 3 at bit 6; two more words (from byte 64 on) have half of those of quarter 2 at bit 0, half at 3, and the
/// last bits of quarter 3.
fn place(i: usize) -> BitSource {
    let (b, n) = (i / 8, i % 8);
    if b < 64 {
        let first = b / 32 * 128 + b / 16 % 2 * 16 + b % 16;
        return match n {
            0..3 => bit(first, n),
            3..6 => bit(first + 32, n - 3),
            _ => bit(first + 96, n - 6),
        };
    }
    let (chunk, word) = ((b - 64) / 8, b / 4 % 2);
    let first = chunk / 2 * 128 + chunk % 2 * 16 + b % 4;
    match n {
        0..3 => bit(first + 64 + 4 * word, n),
        3..6 => bit(first + 64 + 4 * (word + 2), n - 3),
        _ => bit(first + 96 + 4 * (2 * word + n - 6), 2),
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q3K,
    ggml_id: 11,
    name: "Q3_K",
    stem: "q3_k",
    block_len: 256,
    block_bytes: 32 + 64 + 12 + 2,
    fields: &[
        BlockField::new("QS", 32, 64),
        BlockField::new("HM", 0, 32),
        BlockField::new("SC", 96, 12),
        BlockField::new("D", 108, 2),
    ],
    codes: Some(Codes {
        soa: &[SoaPart::Codes("QS", 64), SoaPart::Codes("HM", 32), SoaPart::Field("SC"), SoaPart::Field("D")],
        place,
    }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 108)),
};
