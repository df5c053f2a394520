//! Block formats of quantized weights: byte layouts, exact decoders, one row per format.
//!
//! Pure: no I/O, no GPU, no `unsafe`. A row of a tensor is a whole number of blocks; each block of
//! `block_bytes` bytes holds `block_len` weights. [`FORMATS`] is the table everything else loops over.
#![forbid(unsafe_code)]

mod bits;
mod format;

pub mod bf16;
pub mod f16;
pub mod f32;
pub mod q4_0;
pub mod q4_k;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;

pub use format::{Format, FormatId};

/// Every format, one row each.
pub const FORMATS: &[Format] =
    &[f32::FORMAT, f16::FORMAT, bf16::FORMAT, q4_0::FORMAT, q8_0::FORMAT, q4_k::FORMAT, q5_k::FORMAT, q6_k::FORMAT];

/// The format with ggml's numeric type id, if Pumex runs it.
pub fn find(ggml_id: u32) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.ggml_id == ggml_id)
}
