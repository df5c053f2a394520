//! Mamba 1: every layer is one state-space model, without a feed-forward block.

use crate::config::Reader;
use crate::decoder::{Family, Mamba1, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.only_mix(Mamba1(Recurrent::read(&r)?));
    f.plan(gguf)
}
