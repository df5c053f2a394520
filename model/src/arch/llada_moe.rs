//! LLaDA with experts, whose weights stay as the softmax gives them; q and k are normed per head.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.moe.normalized = false;
    f.experts_share_width(&Reader::new(gguf)?)?;
    f.plan(gguf)
}
