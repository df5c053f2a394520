//! OLMoE: experts with softmaxed weights as they come; q and k are normed as a whole.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.moe.normalized = false;
    f.plan(gguf)
}
