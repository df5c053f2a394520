//! GPT-NeoX and Pythia: norms by mean and deviation, part of each head rotates; blocks may stand beside each other.

use crate::config::Reader;
use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?.layer_norm();
    f.activate(Act::Gelu);
    f.residual.parallel = if r.flag("use_parallel_residual", true)? { Parallel::Own } else { Parallel::No };
    f.plan(gguf)
}
