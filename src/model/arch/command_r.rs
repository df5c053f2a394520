//! Command R: attention and feed-forward block beside each other, norms by mean and deviation; the big one norms q and k.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, Parallel};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?.layer_norm();
    f.parallel = Parallel::Shared;
    f.logit_scale = r.factor("logit_scale", 1.0)?;
    f.plan(gguf)
}
