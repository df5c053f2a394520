//! OLMo 2 and 3: norms after each block only, and of q and k as a whole; OLMo 3 slides in three of four layers.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, SlidingRope};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.pre_norms = false;
    f.post_norms = true;
    f.slide_by_keys(&r, 4, false, SlidingRope::Plain(f.c.rope_base))?;
    f.plan(gguf)
}
