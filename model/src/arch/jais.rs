//! Jais: ALiBi, norms by mean and deviation, SwiGLU; scores are divided by the head's width.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm().no_rope();
    f.attention.alibi = Some(r.factor("attention.max_alibi_bias", 0.0)?).filter(|b| *b > 0.0);
    f.attention.scale = Some(1.0 / f.c.k_dim as f32);
    f.plan(gguf)
}
