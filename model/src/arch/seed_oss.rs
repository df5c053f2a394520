//! Seed-OSS: llama's shape with a norm named otherwise; halves rotate.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.norms.ffn = "post_attention_norm";
    f.plan(gguf)
}
