//! PLaMo 3: norms before and after each block, and of q and k; seven of eight layers slide.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, SlidingRope};
use crate::plan::{Mask, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.post_norms = true;
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 8, false)?;
        let base = r.sliding_base(10000.0)?;
        f.slide(&sliding, Mask::Window(f.c.window), SlidingRope::Unscaled(base));
    }
    f.plan(gguf)
}
