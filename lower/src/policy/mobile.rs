//! GPUs of phones and of Apple: as other GPUs that nobody measured, but for prompts, which take the short types that they have.

use super::portable;
use super::table::{known, ClassChoices, Evidence, Formats, ManyRows, ManyRowsShape};

const SHORT: Evidence = Evidence::Estimate("halves at twice the rate of floats, bytes at four times; few registers");

/// What is chosen.
pub(super) const CHOICES: ClassChoices = ClassChoices {
    many_rows: known(ManyRowsShape { by: &ManyRows::USUAL, bytes: Formats::Any, wide: 1, buffers: 2 }, SHORT),
    ..portable::CHOICES
};
