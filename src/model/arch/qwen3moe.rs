//! Qwen3 with experts: qwen3's attention; a row's feed-forward block is that of the few experts its router wants most, whose
//! softmaxed weights are scaled to sum up to 1.

use super::llama::decoder;
use crate::gguf::Gguf;
use crate::plan::{Plan, RopeStyle};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    decoder(gguf, RopeStyle::Neox, true, true)
}
