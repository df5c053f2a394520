//! Block formats of quantized weights: byte layouts, exact decoders, one row per format.
//!
//! Pure: no I/O, no GPU, no `unsafe`. A row of a tensor is a whole number of blocks; each block of
//! `block_bytes` bytes holds `block_len` weights. [`FORMATS`] is the table everything else loops over.
#![forbid(unsafe_code)]

mod bits;
pub mod codes;
mod format;
pub mod grid;
pub mod search;
pub mod tables;
mod wide;

pub mod bf16;
pub mod f16;
pub mod f32;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod nvfp4;
pub mod q1_0;
pub mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
pub mod q8_k;
pub mod tq1_0;
pub mod tq2_0;

pub use format::{Field, Format, FormatId, Part};
pub use wide::WIDE;

/// Every format, one row each.
pub const FORMATS: &[Format] = &[
    f32::FORMAT,
    f16::FORMAT,
    bf16::FORMAT,
    q1_0::FORMAT,
    q2_0::FORMAT,
    q4_0::FORMAT,
    q4_1::FORMAT,
    q5_0::FORMAT,
    q5_1::FORMAT,
    q8_0::FORMAT,
    q2_k::FORMAT,
    q3_k::FORMAT,
    q4_k::FORMAT,
    q5_k::FORMAT,
    q6_k::FORMAT,
    q8_k::FORMAT,
    iq1_s::FORMAT,
    iq1_m::FORMAT,
    iq2_xxs::FORMAT,
    iq2_xs::FORMAT,
    iq2_s::FORMAT,
    iq3_xxs::FORMAT,
    iq3_s::FORMAT,
    iq4_nl::FORMAT,
    iq4_xs::FORMAT,
    tq1_0::FORMAT,
    tq2_0::FORMAT,
    mxfp4::FORMAT,
    nvfp4::FORMAT,
];

/// Those of files, and what devices hold in place of some of them.
pub fn all() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().chain(WIDE)
}

/// The format with ggml's numeric type id, if Pumex runs it.
pub fn find(ggml_id: u32) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.ggml_id == ggml_id)
}
