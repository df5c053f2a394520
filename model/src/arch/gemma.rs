//! Gemma 1: the embedding is scaled by the root of its width; GELU gates.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.plan(gguf)
}
