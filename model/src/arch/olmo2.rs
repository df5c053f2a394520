//! OLMo 2 and 3: norms after each block only, and of q and k as a whole; OLMo 3 slides in three of four layers.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.before = false;
    f.norms.after = Some(Norms::AFTER);
    f.slide_by_keys(&r, 4, false, SlidingRope::Plain(f.c.rope_base))?;
    f.plan(gguf)
}
