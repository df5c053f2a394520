//! Phi 3, 3.5, 4 and Phi-MoE: one product for q, k and v and one for gate and up; longrope.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
