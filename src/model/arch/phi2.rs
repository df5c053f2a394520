//! Phi 2: norms by mean and deviation; attention and feed-forward block stand beside each other.

use crate::gguf::Gguf;
use crate::model::decoder::{Family, Parallel};
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    f.act = Act::Gelu;
    f.parallel = Parallel::Shared;
    f.plan(gguf)
}
