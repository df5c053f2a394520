//! StarCoder 2 and CodeShell: norms by mean and deviation, GELU, biases.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    f.activate(Act::Gelu);
    f.plan(gguf)
}
