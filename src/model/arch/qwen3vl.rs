//! Qwen3-VL, the text side: as Qwen3. Rows of text have one position, so that the sections of its rotation are one.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
