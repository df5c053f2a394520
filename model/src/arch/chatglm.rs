//! ChatGLM 3 and GLM 4 of 2024: one product for q, k and v and one for gate and up; part of each head rotates.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::llama(gguf)?.plan(gguf)
}
