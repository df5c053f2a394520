//! Granite with sliding layers and sinks.

use crate::config::Reader;
use crate::decoder::{Family, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    super::granite::granite(&mut f, &r)?;
    f.must_slide_by_keys(&r, 0, false, SlidingRope::Same)?;
    if let Some(rotates) = r.is_flags("attention.rope_pattern", f.c.n_layer)? {
        f.layers.iter_mut().zip(rotates).filter(|(_, rotates)| !rotates).for_each(|(layer, _)| layer.rope = None);
    }
    f.embedding.vectors.read_mapping(&r, f.c.n_layer)?;
    f.plan(gguf)
}
