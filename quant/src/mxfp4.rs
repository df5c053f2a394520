//! MXFP4: 32 weights in 17 bytes, 4.25 bits per weight; the OCP microscaling format.
//!
//! `w = 2^(e - 128) * LEVELS[q]`: E2M1 numbers, stored doubled so that they are whole. Bytes: `e`, then Q4_0's nibbles.
use crate::bits::{first_bad, half_nibble, put_nibbles};
use crate::codes::{self, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{error, scale as search, Levels};

/// Twice the E2M1 numbers, also of NVFP4.
pub const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `2^(e - 128)`, subnormal for the two smallest.
fn scale(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = scale(b[0]);
    for (i, o) in out.iter_mut().enumerate() {
        *o = f32::from(LEVELS[usize::from(half_nibble(&b[1..17], i))]) * d;
    }
}

/// The levels in rising order, the zero once.
pub(crate) const RISING: [f32; 15] =
    [-12.0, -8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];

/// Codes of the levels that [`RISING`] holds.
pub(crate) fn codes(x: &[f32], step: f32) -> Vec<u8> {
    let code = |i: u8| if i < 7 { 15 - i } else { i - 7 };
    Levels(&RISING).codes(x, step).into_iter().map(code).collect()
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let largest = search::largest(x, weight).abs();
    // The power of two that puts the largest weight between levels 6 and 12, and its neighbours.
    let middle = (largest / 12.0).log2().ceil().clamp(-120.0, 120.0) as i32 + 128;
    let middle = if largest == 0.0 { 1 } else { middle };
    let cost = |e: &i32| error(x, weight, Levels(&RISING), scale(*e as u8));
    let e = (middle - 2..=middle + 1).map(|e| e.clamp(0, 254)).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
    b[0] = e as u8;
    let codes = codes(x, scale(b[0]));
    put_nibbles(&mut b[1..], &codes);
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Mxfp4,
    ggml_id: 39,
    name: "MXFP4",
    stem: "mxfp4",
    block_len: 32,
    block_bytes: 1 + 16,
    fields: &[BlockField::new("QS", 1, 16), BlockField::new("E", 0, 1)],
    codes: Some(Codes { soa: &[SoaPart::Codes("QS", 16), SoaPart::Field("E")], place: |i| codes::nibbles(1, 16, i) }),
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| b[0] != 255),
};
