//! OLMo 1: norms by mean and deviation without weights; q, k and v are clamped.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm();
    f.attention.clamp = Some(r.factor("attention.clamp_kqv", 0.0)?).filter(|c| *c > 0.0);
    f.plan(gguf)
}
