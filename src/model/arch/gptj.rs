//! GPT-J: norms by mean and deviation, part of each head rotates by pairs of neighbours; attention and feed-forward block stand
//! beside each other, behind one norm.

use crate::gguf::Gguf;
use crate::model::decoder::{Family, Parallel};
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?.layer_norm();
    f.act = Act::Gelu;
    f.parallel = Parallel::Shared;
    f.plan(gguf)
}
