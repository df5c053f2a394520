//! LLaDA, a diffusion model: llama's shape, where rows see all rows of their text.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.see_all();
    f.plan(gguf)
}
