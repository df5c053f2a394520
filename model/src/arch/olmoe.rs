//! OLMoE: experts with softmaxed weights as they come; q and k are normed as a whole.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.moe.normalized = false;
    f.plan(gguf)
}
