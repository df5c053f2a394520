//! Step 3.5: heads by layer, sliding layers that rotate whole heads where others rotate half, limits of experts.

use crate::config::Reader;
use crate::decoder::{Family, Limit, Limited, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let whole = f.c.rope_dims;
    if !whole.is_multiple_of(4) {
        return Err(r.bad("rope.dimension_count", "a multiple of 4, of which full layers rotate half", whole));
    }
    f.rotation.tables[0].dims = whole / 2;
    let base = r.sliding_base(10000.0)?;
    let sliding = r.sliding(f.c.n_layer, 0, false)?;
    f.slide(&sliding, Mask::Window(r.window(&sliding)?), SlidingRope::Unscaled(base));
    f.sliding_table(r.int("rope.dimension_count_swa", Some(whole as u64), 2, f.c.k_dim as u64)?);
    f.experts_where_routed(gguf);
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.limit(&r, "swiglu_clamp_exp", Limited::Experts, Limit::After)?;
    f.limit(&r, "swiglu_clamp_shexp", Limited::Dense, Limit::After)?;
    f.plan(gguf)
}
