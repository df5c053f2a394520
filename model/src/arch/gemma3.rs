//! Gemma 3: norms before and after each block and of q and k; five of six layers slide and rotate by a base of their own.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.norms.after = Some(Norms::AFTER);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.embedding.vectors.scaled = false;
    let base = r.sliding_base(10000.0)?;
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 6, false)?;
        f.slide(&sliding, Mask::Window(f.c.window), SlidingRope::Unscaled(base));
    }
    let cap = r.factor("final_logit_softcapping", 0.0)?;
    f.output.cap = (cap != 0.0).then_some(cap);
    if f.c.n_layer == 62 {
        f.attention.scale = Some(1.0 / (f.c.n_embd as f32 / f.c.n_head[0] as f32).sqrt());
        // 27B
    }
    f.plan(gguf)
}
