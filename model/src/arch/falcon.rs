//! Falcon: attention and feed-forward block beside each other, the big one with a norm for each; GELU.

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
