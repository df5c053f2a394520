//! How each weight format becomes a form of [`crate::layout`]: a type per format, with what it is brought into and how a block is
//! taken apart. That is all a new format needs here, beside a line in [`with_format`].

mod codebooks;
mod k;
mod legacy;
mod levels;
mod ternary;

use crate::layout::{FormatBlock, WeightLayout};
pub use codebooks::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
pub use k::{Q2K, Q3K, Q4K, Q5K, Q6K, Q8K};
pub use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub use levels::{Iq4Nl, Iq4Xs, Mxfp4, Nvfp4};
use pumex_quant::FormatId;
pub use ternary::{Tq1_0, Tq2_0, Q1_0, Q2_0};

/// A weight format.
pub trait FormatUnpacker {
    /// Weights of a block.
    const LEN: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// What it becomes.
    const LAYOUT: WeightLayout;
    /// Takes a block of [`FormatUnpacker::BYTES`] bytes apart.
    fn split(b: &[u8], out: &mut FormatBlock);
}

/// Calls a macro's or function's arm with the type of a format: `with_format!(id, T => expression, else => other)`.
macro_rules! with_format {
    ($id:expr, $t:ident => $body:expr, else => $other:expr) => {{
        use pumex_quant::FormatId as Id;
        macro_rules! arm {
            ($of:ident) => {{
                type $t = $crate::formats::$of;
                $body
            }};
        }
        match $id {
            Id::Q1_0 => arm!(Q1_0),
            Id::Q2_0 => arm!(Q2_0),
            Id::Q4_0 => arm!(Q4_0),
            Id::Q4_1 => arm!(Q4_1),
            Id::Q5_0 => arm!(Q5_0),
            Id::Q5_1 => arm!(Q5_1),
            Id::Q8_0 => arm!(Q8_0),
            Id::Q2K => arm!(Q2K),
            Id::Q3K => arm!(Q3K),
            Id::Q4K => arm!(Q4K),
            Id::Q5K => arm!(Q5K),
            Id::Q6K => arm!(Q6K),
            Id::Q8K => arm!(Q8K),
            Id::Iq1S => arm!(Iq1S),
            Id::Iq1M => arm!(Iq1M),
            Id::Iq2Xxs => arm!(Iq2Xxs),
            Id::Iq2Xs => arm!(Iq2Xs),
            Id::Iq2S => arm!(Iq2S),
            Id::Iq3Xxs => arm!(Iq3Xxs),
            Id::Iq3S => arm!(Iq3S),
            Id::Iq4Nl => arm!(Iq4Nl),
            Id::Iq4Xs => arm!(Iq4Xs),
            Id::Tq1_0 => arm!(Tq1_0),
            Id::Tq2_0 => arm!(Tq2_0),
            Id::Mxfp4 => arm!(Mxfp4),
            Id::Nvfp4 => arm!(Nvfp4),
            Id::F32 | Id::F16 | Id::Bf16 | Id::Iq1SExpanded | Id::Iq1MExpanded | Id::Iq3SExpanded => $other,
        }
    }};
}
pub(crate) use with_format;

/// The form a format is brought into; none for floats, which stay as they are.
pub fn layout(id: FormatId) -> Option<WeightLayout> {
    with_format!(id, T => Some(T::LAYOUT), else => None)
}

/// Codes that stand for themselves minus `zero`.
const fn from(zero: u8) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = 128 - zero + i as u8;
        i += 1;
    }
    table
}

/// Codes that stand for themselves, with a minimum.
const PLAIN: [u8; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = i as u8;
        i += 1;
    }
    table
};

/// What is added to codes of more than four bits.
const fn plus(n: u8) -> [u8; 16] {
    [n; 16]
}

/// The u16 at byte `at`.
#[inline(always)]
fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

/// The u32 at byte `at`.
#[inline(always)]
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// A word of eight bytes that all are `b`.
const fn times_8(b: u8) -> u64 {
    u64::from_le_bytes([b; 8])
}

/// Eight bytes from byte `at` on: codes are taken apart eight at a time.
#[inline(always)]
fn eight(b: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&b[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Writes eight codes.
#[inline(always)]
fn put_eight(codes: &mut [u8], at: usize, word: u64) {
    codes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Codes of bytes whose low nibbles are the first half and whose high nibbles the second; a multiple of eight bytes.
#[inline(always)]
fn halves_of_nibbles(bytes: &[u8], codes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(8) {
        let q = eight(bytes, at);
        put_eight(codes, at, q & times_8(15));
        put_eight(codes, bytes.len() + at, q >> 4 & times_8(15));
    }
}

/// Adds bit `from` of bytes to codes, as their bit `to`.
#[inline(always)]
fn add_bit(bytes: &[u8], from: usize, codes: &mut [u8], to: usize) {
    for at in (0..bytes.len()).step_by(8) {
        let high = (eight(bytes, at) >> from & times_8(1)) << to;
        put_eight(codes, at, eight(codes, at) | high);
    }
}
