//! F16: little-endian IEEE half precision, 16 bits per weight. One weight per block.
use crate::bits::{finite_half, first_bad, half_at};
use crate::format::{Format, FormatId};

fn encode(x: &[f32], _: &[f32], b: &mut [u8]) {
    b.copy_from_slice(&half::f16::from_f32(x[0]).to_le_bytes());
}

/// Row of the format table.
pub const FORMAT: Format = Format {
    id: FormatId::F16,
    ggml_id: 1,
    name: "F16",
    stem: "f16",
    block_len: 1,
    block_bytes: 2,
    fields: &[],
    codes: None,
    decode: |b, out| out[0] = half_at(b, 0),
    encode,
    first_bad: |bytes, _| first_bad(bytes, 2, |b| finite_half(b, 0)),
};
