//! PLaMo 3: norms before and after each block, and of q and k; seven of eight layers slide.

use crate::config::Reader;
use crate::decoder::{Family, Norms, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.after = Some(Norms::AFTER);
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 8, false)?;
        let base = r.sliding_base(10000.0)?;
        f.slide(&sliding, Mask::Window(f.c.window), SlidingRope::Unscaled(base));
    }
    f.plan(gguf)
}
