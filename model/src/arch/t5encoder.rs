//! The encoder of T5 alone: embeddings come out.

use super::t5;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    t5::encoder(gguf)
}
