//! Nemotron 3 and 4: norms by mean and deviation, squared ReLU without a gate, part of each head rotates.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    f.activate(Act::ReluSquared);
    f.plan(gguf)
}
