//! Gemma 2: norms before and after each block, every other layer slides, attention and logits are soft-capped.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.norms.after = Some(Norms::AFTER);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.c.window = if f.c.window == 0 { 4096 } else { f.c.window };
    f.slide_by_keys(&r, 2, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.attention.cap = Some(r.factor("attn_logit_softcapping", 50.0)?);
    f.output.cap = Some(r.factor("final_logit_softcapping", 30.0)?);
    if f.c.n_layer == 46 {
        f.attention.scale = Some(1.0 / (f.c.n_embd as f32 / f.c.n_head[0] as f32).sqrt());
        // 27B
    }
    f.plan(gguf)
}
