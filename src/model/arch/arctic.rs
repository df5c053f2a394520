//! Arctic: a dense block after attention, and experts that take the layer's input, beside each other.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?;
    f.moe.own_norms = true;
    f.plan(gguf)
}
