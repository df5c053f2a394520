//! DeepSeek 1: the first layers are dense, the others have experts beside some that all rows share.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.dense_first(&r)?;
    f.moe.normalized = false;
    f.plan(gguf)
}
