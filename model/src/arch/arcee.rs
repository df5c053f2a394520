//! Arcee: llama's shape with squared ReLU and no gate.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = Family::of(gguf)?;
    Family { act: Act::ReluSquared, ..f }.plan(gguf)
}
