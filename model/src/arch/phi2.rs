//! Phi 2: norms by mean and deviation; attention and feed-forward block stand beside each other.

use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    f.activate(Act::Gelu);
    f.residual.parallel = Parallel::Shared;
    f.plan(gguf)
}
