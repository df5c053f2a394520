//! DeepSeek 1: the first layers are dense, the others have experts beside some that all rows share.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    f.dense_first(&r)?;
    f.moe.normalized = false;
    f.plan(gguf)
}
