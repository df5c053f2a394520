//! OLMo 2 and 3: norms after each block only, and of q and k as a whole; OLMo 3 slides in three of four layers.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Mask, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.pre_norms = false;
    f.post_norms = true;
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 4, false)?;
        let base = r.float("rope.freq_base_swa", Some(f.c.rope_base), 1.0, 1e12)?;
        f.slide(&sliding, Mask::Window(f.c.window), Some(base));
    }
    f.plan(gguf)
}
