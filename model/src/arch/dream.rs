//! Dream, a diffusion model: as Qwen 2, where rows see all rows of their text.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.plan(gguf)
}
