//! Refact: llama's shape with ALiBi.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?.no_rope();
    f.alibi = Some(8.0);
    f.plan(gguf)
}
