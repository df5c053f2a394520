//! GPT-J: norms by mean and deviation, part of each head rotates by pairs of neighbours; attention and feed-forward block stand
//! beside each other, behind one norm.

use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?.layer_norm();
    f.activate(Act::Gelu);
    f.residual.parallel = Parallel::Shared;
    f.plan(gguf)
}
