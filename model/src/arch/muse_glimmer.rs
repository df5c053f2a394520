//! Muse Glimmer: norms of the embedding and after each block, gates of what heads give, rotation in sliding layers only.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    (f.embedding.normed, f.norms.after, f.norms.after_eps) = (true, Some(Norms::AFTER), Some(1e-8));
    let sliding = f.must_slide_by_keys(&r, 4, false, SlidingRope::Unscaled(r.sliding_base(f.c.rope_base)?))?;
    f.rope_in(&sliding);
    f.output.scale = r.factor("logit_scale", 1.0)?;
    let cap = r.factor("final_logit_softcapping", 30.0)?;
    f.output.cap = (cap != 0.0).then_some(cap);
    f.plan(gguf)
}
