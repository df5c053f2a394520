//! GLM 4.5 to 4.7: the first layers are dense, the others route by sigmoid and a bias, beside experts that all rows share.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Gating, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.ffn_norm = "post_attention_norm";
    f.read_sections(&r, false)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
