//! BF16: the upper half of an IEEE single, little-endian, 16 bits per weight. One weight per block.
use crate::bits::first_bad;
use crate::format::{Format, FormatId};

fn value(block: &[u8]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes([block[0], block[1]])) << 16)
}

fn encode(x: &[f32], _: &[f32], b: &mut [u8]) {
    b.copy_from_slice(&half::bf16::from_f32(x[0]).to_le_bytes());
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::Bf16,
    ggml_id: 30,
    name: "BF16",
    stem: "bf16",
    block_len: 1,
    block_bytes: 2,
    fields: &[],
    codes: None,
    decode: |b, out| out[0] = value(b),
    encode,
    first_bad: |bytes, _| first_bad(bytes, 2, |b| value(b).is_finite()),
};
