//! PLaMo 1: attention and feed-forward block beside each other.

use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.residual.parallel = Parallel::Shared;
    f.plan(gguf)
}
