//! Q8_K: 256 weights in 292 bytes, 9.125 bits per weight; an intermediate of integer kernels, rarely stored.
//!
//! `w = d * q`. Bytes: `d` f32, 256 signed bytes, then the sums of each 16 of them as i16, which decoding does not need.
use crate::bits::first_bad;
use crate::format::{BlockField, Format, FormatId};
use crate::search::{inverse, round};

fn scale(b: &[u8]) -> f32 {
    f32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

fn decode(b: &[u8], out: &mut [f32]) {
    let d = scale(b);
    for (o, q) in out.iter_mut().zip(&b[4..260]) {
        *o = d * f32::from(*q as i8);
    }
}

fn encode(x: &[f32], _: &[f32], b: &mut [u8]) {
    let d = x.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0;
    b[..4].copy_from_slice(&d.to_le_bytes());
    let inverse = inverse(d);
    let (codes, sums) = b[4..].split_at_mut(256);
    for ((codes, sum), x) in codes.chunks_exact_mut(16).zip(sums.chunks_exact_mut(2)).zip(x.chunks_exact(16)) {
        let mut total = 0i16;
        for (q, x) in codes.iter_mut().zip(x) {
            let code = round((x * inverse).clamp(-127.0, 127.0)) as i8;
            *q = code as u8;
            total += i16::from(code);
        }
        sum.copy_from_slice(&total.to_le_bytes());
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q8K,
    ggml_id: 15,
    name: "Q8_K",
    stem: "q8_k",
    block_len: 256,
    block_bytes: 4 + 256 + 32,
    fields: &[BlockField::new("QS", 4, 256), BlockField::new("BSUMS", 260, 32), BlockField::new("D", 0, 4)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| scale(b).is_finite()),
};
