//! StableLM: norms by mean and deviation, part of each head rotates; blocks stand beside each other where there is no second
//! norm.

use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    if gguf.tensor("blk.0.ffn_norm.weight").is_none() {
        f.residual.parallel = Parallel::Shared;
    }
    f.plan(gguf)
}
