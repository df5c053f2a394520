//! F32: little-endian IEEE single precision, 32 bits per weight. One weight per block.
use crate::bits::first_bad;
use crate::format::{Format, FormatId};

fn value(block: &[u8]) -> f32 {
    f32::from_le_bytes([block[0], block[1], block[2], block[3]])
}

fn encode(x: &[f32], _: &[f32], b: &mut [u8]) {
    b.copy_from_slice(&x[0].to_le_bytes());
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::F32,
    ggml_id: 0,
    name: "F32",
    stem: "f32",
    block_len: 1,
    block_bytes: 4,
    fields: &[],
    codes: None,
    decode: |b, out| out[0] = value(b),
    encode,
    first_bad: |bytes, _| first_bad(bytes, 4, |b| value(b).is_finite()),
};
