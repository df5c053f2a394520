//! Command R7B and A: three of four layers slide and rotate, the fourth does neither.

use crate::config::Reader;
use crate::decoder::{Family, Parallel, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm();
    f.residual.parallel = Parallel::Shared;
    f.output.scale = r.factor("logit_scale", 1.0)?;
    let sliding = f.must_slide_by_keys(&r, 4, false, SlidingRope::Same)?;
    f.rope_in(&sliding);
    f.plan(gguf)
}
