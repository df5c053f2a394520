//! Arctic: a dense block after attention, and experts that take the layer's input, beside each other.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?;
    f.moe.own_norms = true;
    f.plan(gguf)
}
