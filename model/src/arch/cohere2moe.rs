//! Command A with experts: blocks beside each other; layers that slide rotate, and the first ones.

use crate::config::Reader;
use crate::decoder::{Family, Parallel, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, NormKind, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm();
    if r.has("attention.layer_norm_rms_epsilon") && r.float("attention.layer_norm_rms_epsilon", None, 0.0, 1.0)? > 0.0 {
        f.norms.kind = NormKind::Rms;
    }
    f.residual.parallel = Parallel::Shared;
    f.output.scale = r.factor("logit_scale", 1.0)?;
    let sliding = f.must_slide_by_keys(&r, 4, true, SlidingRope::Same)?;
    let dense = r.int("leading_dense_block_count", Some(0), 0, 1024)?;
    f.layers.iter_mut().zip(sliding).skip(dense).filter(|(_, s)| !s).for_each(|(layer, _)| layer.rope = None);
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.average = Some(0.5);
    f.plan(gguf)
}
