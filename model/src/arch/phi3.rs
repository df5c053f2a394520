//! Phi 3, 3.5, 4 and Phi-MoE: one product for q, k and v and one for gate and up; longrope.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
