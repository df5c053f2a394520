//! NVFP4: 64 weights in 36 bytes, 4.5 bits per weight.
//!
//! `w = scale[j] * LEVELS[q]` for each of 4 sub-blocks `j` of 16, with MXFP4's levels. Bytes: 4 scales (E4M3 without sign,
//! halved because the levels are doubled), then per sub-block 8 bytes of nibbles in Q4_0's order.
use crate::bits::half_nibble;
use crate::bits::put_nibbles;
use crate::codes::{self, Codes, SoaPart};
use crate::format::{BlockField, Format, FormatId};
use crate::mxfp4::LEVELS;
use crate::mxfp4::{codes, RISING};
use crate::search::{error, scale as search, Levels};

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

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    for j in 0..4 {
        let (x, weight) = (&x[16 * j..][..16], &weight[16 * j..][..16]);
        let free = search::fit(x, weight, Levels(&RISING)).abs();
        let above = (1..=126u8).position(|s| scale(s) >= free).map_or(126, |at| at as i32 + 1);
        let cost = |s: &u8| error(x, weight, Levels(&RISING), scale(*s));
        let near = (above - 3..=above + 2).map(|s| s.clamp(0, 126) as u8);
        b[j] = near.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
        let codes = codes(x, scale(b[j]));
        put_nibbles(&mut b[4 + 8 * j..][..8], &codes);
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
    fields: &[BlockField::new("QS", 4, 32), BlockField::new("SC", 0, 4)],
    codes: Some(Codes { soa: &[SoaPart::Codes("QS", 32), SoaPart::Field("SC")], place: |i| codes::nibbles(4, 8, i) }),
    decode,
    encode,
    first_bad: |_, _| None,
};
