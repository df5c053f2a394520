//! RND1, a diffusion model: as Qwen 3 with experts, where rows see all rows of their text.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.experts_share_width(&Reader::new(gguf)?)?;
    f.plan(gguf)
}
