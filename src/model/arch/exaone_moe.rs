//! EXAONE with experts: q and k are normed, three of four layers slide, and only those rotate.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, SlidingRope};
use crate::plan::{Gating, Plan};
use crate::Result;

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
