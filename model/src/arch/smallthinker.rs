//! SmallThinker: experts chosen by what comes before attention; ReLU gates.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.moe.act = Act::Relu;
    f.moe.by_residual = true;
    if f.c.window > 0 {
        f.c.window = 4096;
        f.slide_by_keys(&r, 4, true, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
        // One in four layers does not rotate, but of four layers alone all do.
        if f.c.n_layer != 4 {
            f.layers.iter_mut().step_by(4).for_each(|layer| layer.rope = None);
        }
    }
    f.route_by_keys(&r, Gating::Softmax)?;
    f.moe.normalized = true;
    f.plan(gguf)
}
