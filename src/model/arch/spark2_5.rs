//! Spark 2.5: sliding layers by a pattern, a gate for each head, GELU.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, SlidingRope};
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.act = Act::Gelu;
    f.must_slide_by_keys(&r, 0, false, SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?))?;
    f.sliding_table(r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, f.c.k_dim as u64)?);
    f.plan(gguf)
}
