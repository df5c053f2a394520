//! Ling 1: experts with softmaxed weights beside some that all rows share.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    f.moe.normalized = r.flag("expert_weights_norm", false)?;
    f.attention_scale = Some(1.0 / (f.c.rope_dims as f32).sqrt());
    f.plan(gguf)
}
