//! MXFP4: 32 weights in 17 bytes, 4.25 bits per weight; the OCP microscaling format.
//!
//! `w = 2^(e - 128) * LEVELS[q]`: E2M1 numbers, stored doubled so that they are whole. Bytes: `e`, then Q4_0's nibbles.
use crate::bits::half_nibble;
use crate::format::{Format, FormatId};

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

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Mxfp4,
    ggml_id: 39,
    name: "MXFP4",
    stem: "mxfp4",
    block_len: 32,
    block_bytes: 1 + 16,
    decode,
    is_finite: |b| b[0] != 255,
};
