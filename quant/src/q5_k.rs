//! Q5_K: 256 weights in 176 bytes, 5.5 bits per weight.
//!
//! Like Q4_K with a fifth bit: `d` f16, `dmin` f16, 12 bytes of 6-bit scales and minima, 32 bytes of high bits (bit `j`
//! of byte `l` belongs to weight `l` of sub-block `j`), then 128 bytes of low nibbles in Q4_K's order.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_scale_mins, scale_min};
use crate::format::{BlockField, Format, FormatId};
use crate::search::two_level;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(b, 0), half_at(b, 2));
    let high = &b[16..48];
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(&b[4..16], j);
        let (step, base) = (d * f32::from(scale), dmin * f32::from(min));
        let run = &b[48 + 32 * (j / 2)..][..32];
        for (l, o) in part.iter_mut().enumerate() {
            let q = ((run[l] >> (4 * (j % 2))) & 15) | (((high[l] >> j) & 1) << 4);
            *o = step * f32::from(q) - base;
        }
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let block = two_level::affine(x, weight, 32, 31.0, 63.0);
    put_half(b, 0, block.d);
    put_half(b, 2, block.dmin);
    put_scale_mins(&mut b[4..16], &block.scales, &block.mins);
    let q = block.codes(x, 32, 31.0);
    let (high, low) = b[16..].split_at_mut(32);
    for (l, high) in high.iter_mut().enumerate() {
        *high = (0..8).fold(0, |bits, j| bits | q[32 * j + l] >> 4 << j);
    }
    for (run, q) in low.chunks_exact_mut(32).zip(q.chunks_exact(64)) {
        run.iter_mut().enumerate().for_each(|(l, byte)| *byte = q[l] & 15 | q[l + 32] << 4);
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q5K,
    ggml_id: 13,
    name: "Q5_K",
    stem: "q5_k",
    block_len: 256,
    block_bytes: 2 + 2 + 12 + 32 + 128,
    fields: &[BlockField::new("QS", 48, 128), BlockField::new("QH", 16, 32), BlockField::new("HEAD", 0, 16)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0) && finite_half(b, 2)),
};
