//! AFMoE: norms before and after each block, a gate after attention; three of four layers slide, and only those rotate.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.after = Some(Norms::AFTER);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.slide_by_keys(&r, 4, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.layers.iter_mut().skip(3).step_by(4).for_each(|layer| layer.rope = None);
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
