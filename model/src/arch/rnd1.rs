//! RND1, a diffusion model: as Qwen 3 with experts, where rows see all rows of their text.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.experts_share_width(&Reader::new(gguf)?)?;
    f.plan(gguf)
}
