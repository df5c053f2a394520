//! EXAONE 4: norms after each block only, and of q and k; in the big one three of four layers slide, and only those rotate.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.before = false;
    f.norms.after = Some(Norms::AFTER);
    if f.c.n_layer == 64 {
        f.c.window = if f.c.window == 0 { 4096 } else { f.c.window };
        let sliding = f.slide_by_keys(&r, 4, false, SlidingRope::Same)?;
        f.rope_in(&sliding);
    }
    f.plan(gguf)
}
