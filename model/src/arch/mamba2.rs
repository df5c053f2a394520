//! Mamba 2: every layer is one state-space model with heads, without a feed-forward block.

use crate::config::Reader;
use crate::decoder::{Family, Mamba2, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.only_mix(Mamba2(Recurrent::read(&r)?));
    f.plan(gguf)
}
