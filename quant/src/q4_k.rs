//! Q4_K: 256 weights in 144 bytes, 4.5 bits per weight.
//!
//! `w = d * scale[j] * q - dmin * min[j]` for each of 8 sub-blocks `j` of 32. Bytes: `d` f16, `dmin` f16, 12 bytes of
//! 6-bit scales and minima, then four runs of 32 bytes: low nibbles are sub-block `2i`, high nibbles `2i + 1`.
use crate::bits::{finite_half, first_bad, half_at, put_half, put_scale_mins, scale_min};
use crate::format::{BlockField, Format, FormatId};
use crate::search::two_level;

fn decode(b: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(b, 0), half_at(b, 2));
    for (j, part) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(&b[4..16], j);
        let (step, base) = (d * f32::from(scale), dmin * f32::from(min));
        let run = &b[16 + 32 * (j / 2)..][..32];
        for (o, &q) in part.iter_mut().zip(run) {
            *o = step * f32::from((q >> (4 * (j % 2))) & 15) - base;
        }
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let block = two_level::affine(x, weight, 32, 15.0, 63.0);
    put_half(b, 0, block.d);
    put_half(b, 2, block.dmin);
    put_scale_mins(&mut b[4..16], &block.scales, &block.mins);
    let q = block.codes(x, 32, 15.0);
    for (run, q) in b[16..].chunks_exact_mut(32).zip(q.chunks_exact(64)) {
        run.iter_mut().enumerate().for_each(|(l, byte)| *byte = q[l] | q[l + 32] << 4);
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q4K,
    ggml_id: 12,
    name: "Q4_K",
    stem: "q4_k",
    block_len: 256,
    block_bytes: 2 + 2 + 12 + 128,
    fields: &[BlockField::new("QS", 16, 128), BlockField::new("HEAD", 0, 16)],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 0) && finite_half(b, 2)),
};
