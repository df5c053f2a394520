//! Command R: attention and feed-forward block beside each other, norms by mean and deviation; the big one norms q and k.

use crate::config::Reader;
use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm();
    f.residual.parallel = Parallel::Shared;
    f.output.scale = r.factor("logit_scale", 1.0)?;
    f.plan(gguf)
}
