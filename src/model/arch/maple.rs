//! Maple: experts in every layer, with limits; rotation in sliding layers only.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, Limits};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.rope_in_sliding(&r, 0)?;
    f.moe.normalized = true;
    f.moe.limits[0] = Some(Limits { by_layer: r.floats("swiglu_clamp_exp", f.c.n_layer, 0.0)?, before: true });
    f.plan(gguf)
}
