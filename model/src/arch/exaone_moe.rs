//! EXAONE with experts: q and k are normed, three of four layers slide, and only those rotate.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let sliding = f.must_slide_by_keys(&r, 4, false, SlidingRope::Same)?;
    f.rope_in(&sliding);
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
