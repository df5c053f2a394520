//! PLaMo 1: attention and feed-forward block beside each other.

use crate::gguf::Gguf;
use crate::model::decoder::{Family, Parallel};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.parallel = Parallel::Shared;
    f.plan(gguf)
}
