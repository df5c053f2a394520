//! NVFP4: 64 weights in 36 bytes, 4.5 bits per weight.
//!
//! `w = scale[j] * LEVELS[q]` for each of 4 sub-blocks `j` of 16, with MXFP4's levels. Bytes: 4 scales (E4M3 without sign,
//! halved because the levels are doubled), then per sub-block 8 bytes of nibbles in Q4_0's order.
use crate::bits::half_nibble;
use crate::format::{Format, FormatId};
use crate::mxfp4::LEVELS;

/// Half of the E4M3 number; its NaN counts as 0.
fn scale(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    match byte {
        0 | 0x7f => 0.0,
        _ if exponent == 0 => mantissa * 2f32.powi(-10),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 8),
    }
}

fn decode(b: &[u8], out: &mut [f32]) {
    for (j, part) in out.chunks_exact_mut(16).enumerate() {
        let d = scale(b[j]);
        for (i, o) in part.iter_mut().enumerate() {
            *o = f32::from(LEVELS[usize::from(half_nibble(&b[4 + 8 * j..][..8], i))]) * d;
        }
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Nvfp4,
    ggml_id: 40,
    name: "NVFP4",
    stem: "nvfp4",
    block_len: 64,
    block_bytes: 4 + 32,
    decode,
    is_finite: |_| true,
};
