//! Talkie: norms without weights, of the embedding too, which each layer adds again; a factor for each head of queries.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    (f.bare_norms, f.embedding_norm, f.embedding_skip, f.qk_norm_plain) = (true, true, true, true);
    f.logit_scale = r.factor("logit_scale", 1.0)?;
    f.plan(gguf)
}
