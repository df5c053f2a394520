//! Mellum: as Qwen3 with experts and sliding layers.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, SlidingRope};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.slide_by_keys(&r, 4, false, SlidingRope::Plain(f.c.rope_base))?;
    f.plan(gguf)
}
