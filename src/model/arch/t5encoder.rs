//! The encoder of T5 alone: embeddings come out.

use super::t5;
use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    t5::encoder(gguf)
}
