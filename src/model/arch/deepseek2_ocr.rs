//! DeepSeek-OCR, the text side: plain attention with halves rotated, experts beside one that all rows share.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Gating, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Softmax)?;
    f.plan(gguf)
}
