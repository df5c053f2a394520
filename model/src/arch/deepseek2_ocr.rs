//! DeepSeek-OCR, the text side: plain attention with halves rotated, experts beside one that all rows share.

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
