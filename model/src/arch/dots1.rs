//! dots.llm1: q and k are normed; the first layers are dense, the others route by keys.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Softmax)?;
    f.plan(gguf)
}
