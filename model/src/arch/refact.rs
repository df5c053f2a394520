//! Refact: llama's shape with ALiBi.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?.no_rope();
    f.attention.alibi = Some(8.0);
    f.plan(gguf)
}
