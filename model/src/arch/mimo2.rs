//! MiMo 2: sliding layers with sinks and a base of their own, scaled values, experts by sigmoid.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.must_slide_by_keys(&r, 0, false, SlidingRope::Unscaled(r.sliding_base(10000.0)?))?;
    f.attention.out_scale = r.factor("attention.value_scale", 1.0)?;
    f.experts_where_routed(gguf);
    f.route_by_keys(&r, Gating::Sigmoid)?;
    (f.moe.gating, f.moe.normalized) = (Gating::Sigmoid, true);
    f.plan(gguf)
}
