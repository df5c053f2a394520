//! DBRX: norms by mean and deviation, q, k and v are clamped; experts.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?.layer_norm();
    f.ffn_norm = "attn_output_norm";
    f.clamp_kqv = Some(r.factor("attention.clamp_kqv", 0.0)?).filter(|c| *c > 0.0);
    f.plan(gguf)
}
