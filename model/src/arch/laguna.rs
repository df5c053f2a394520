//! Laguna: gates of what heads give by softplus, sliding layers with a rotation of their own, experts by sigmoid.

use crate::config::Reader;
use crate::decoder::{Family, HeadGate, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.attention.gate = HeadGate::Softplus;
    if f.c.window > 0 {
        let base = r.sliding_base(f.c.rope_base)?;
        let sliding = r.sliding(f.c.n_layer, 4, true)?;
        f.slide(&sliding, Mask::Window(f.c.window), SlidingRope::Plain(base));
        f.sliding_table(r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, f.c.k_dim as u64)?);
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
