//! SmolLM3: llama's shape; every fourth layer does not rotate.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.layers.iter_mut().skip(3).step_by(4).for_each(|layer| layer.rope = None);
    f.plan(gguf)
}
