//! Arcee: llama's shape with squared ReLU and no gate.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.activate(Act::ReluSquared);
    f.plan(gguf)
}
