//! Spark 2.5: sliding layers by a pattern, a gate for each head, GELU.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.must_slide_by_keys(&r, 0, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.sliding_table(r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, f.c.k_dim as u64)?);
    f.plan(gguf)
}
