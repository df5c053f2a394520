//! Mellum: as Qwen3 with experts and sliding layers.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.slide_by_keys(&r, 4, false, SlidingRope::Plain(f.c.rope_base))?;
    f.plan(gguf)
}
