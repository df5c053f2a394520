//! gpt-oss: every other layer slides, attention has sinks, everything has biases; experts are weighted by a softmax over those
//! that are taken, and gate by a clamped SiLU.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.ffn = "post_attention_norm";
    f.must_slide_by_keys(&r, 2, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.moe.gating = Gating::SoftmaxOfTaken;
    f.moe.normalized = false;
    f.moe.act = Act::SiluClamped(1.702, 7.0);
    f.attention.scale = Some(1.0 / (f.c.rope_dims as f32).sqrt());
    f.plan(gguf)
}
