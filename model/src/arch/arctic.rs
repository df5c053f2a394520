//! Arctic: a dense block after attention, and experts that take the layer's input, beside each other.

use crate::decoder::{BesideExperts, Family};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.moe.beside = BesideExperts::DenseNormed;
    f.plan(gguf)
}
