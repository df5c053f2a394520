//! Ling 1: experts with softmaxed weights beside some that all rows share.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.moe.normalized = r.flag("expert_weights_norm", false)?;
    f.attention.scale = Some(1.0 / (f.c.rope_dims as f32).sqrt());
    f.plan(gguf)
}
