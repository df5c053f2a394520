//! Maple: experts in every layer, with limits; rotation in sliding layers only.

use crate::config::Reader;
use crate::decoder::{Family, Limit, Limited, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let sliding = f.must_slide_by_keys(&r, 0, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.sliding_table(r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, f.c.k_dim as u64)?);
    f.rope_in(&sliding);
    f.moe.normalized = true;
    f.limit(&r, "swiglu_clamp_exp", Limited::Experts, Limit::Before)?;
    f.plan(gguf)
}
