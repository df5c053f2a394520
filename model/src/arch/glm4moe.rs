//! GLM 4.5 to 4.7: the first layers are dense, the others route by sigmoid and a bias, beside experts that all rows share.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.ffn = "post_attention_norm";
    f.read_sections(&r, false)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
