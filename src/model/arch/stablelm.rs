//! StableLM: norms by mean and deviation, part of each head rotates; blocks stand beside each other where there is no second
//! norm.

use crate::gguf::Gguf;
use crate::model::decoder::{Family, Parallel};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?.layer_norm();
    if gguf.tensor("blk.0.ffn_norm.weight").is_none() {
        f.parallel = Parallel::Shared;
    }
    f.plan(gguf)
}
