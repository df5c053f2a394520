//! LLaDA, a diffusion model: llama's shape, where rows see all rows of their text.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?;
    f.see_all();
    f.plan(gguf)
}
