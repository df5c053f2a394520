//! InternLM 2: llama's shape.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::llama(gguf)?.plan(gguf)
}
