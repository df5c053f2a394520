//! MiniCPM: llama's shape with factors of embedding, residual stream and logits.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.embedding.scale = r.factor("embedding_scale", 12.0)?;
    f.residual.scale = r.factor("residual_scale", 1.4 / (f.c.n_layer as f32).sqrt())?;
    f.output.scale = 1.0 / r.factor("logit_scale", 256.0 / f.c.n_embd as f32)?;
    f.output.scale = if r.has("logit_scale") { f.output.scale } else { 256.0 / f.c.n_embd as f32 };
    f.plan(gguf)
}
