//! Q6_K: 256 weights in 210 bytes, 6.5625 bits per weight.
//!
//! `w = d * scale[i / 16] * (q - 32)`. Bytes: 128 of low nibbles, 64 of high bit pairs, 16 signed scales, `d` f16. Each
//! half of 128 weights uses 64 low bytes and 32 high bytes: quarter `k` (32 weights) takes nibble `k / 2` of low bytes
//! `32 * (k % 2)..` and bit pair `k` of the high bytes.
use crate::bits::{finite_half, first_bad, half_at, put_half};
use crate::format::{BlockField, Format, FormatId};
use crate::search::{codes, two_level, Integers};

fn decode(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 208);
    for (i, o) in out.iter_mut().enumerate() {
        let (half, k, l) = (i / 128, i % 128 / 32, i % 32);
        let low = (b[64 * half + 32 * (k % 2) + l] >> (4 * (k / 2))) & 15;
        let high = (b[128 + 32 * half + l] >> (2 * k)) & 3;
        let scale = f32::from(b[192 + i / 16] as i8);
        *o = d * scale * (f32::from(low | (high << 4)) - 32.0);
    }
}

fn encode(x: &[f32], weight: &[f32], b: &mut [u8]) {
    let lattice = Integers { low: -32.0, high: 31.0 };
    let block = two_level::scales(x, weight, 16, lattice, -128.0, 127.0);
    b.fill(0);
    put_half(b, 208, block.d);
    for j in 0..16 {
        b[192 + j] = block.scales[j] as i8 as u8;
        for (l, q) in codes(&x[16 * j..][..16], lattice, block.sub(j), 32).into_iter().enumerate() {
            let i = 16 * j + l;
            let (half, k, l) = (i / 128, i % 128 / 32, i % 32);
            b[64 * half + 32 * (k % 2) + l] |= (q & 15) << (4 * (k / 2));
            b[128 + 32 * half + l] |= q >> 4 << (2 * k);
        }
    }
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Q6K,
    ggml_id: 14,
    name: "Q6_K",
    stem: "q6_k",
    block_len: 256,
    block_bytes: 128 + 64 + 16 + 2,
    fields: &[
        BlockField::new("QL", 0, 128),
        BlockField::new("QH", 128, 64),
        BlockField::new("SC", 192, 16),
        BlockField::new("D", 208, 2),
    ],
    codes: None,
    decode,
    encode,
    first_bad: |bytes, n| first_bad(bytes, n, |b| finite_half(b, 208)),
};
