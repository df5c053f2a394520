//! Qwen2 with experts, whose weights are softmaxed and not scaled, and one that all rows share, behind a gate.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.moe.normalized = false;
    f.plan(gguf)
}
