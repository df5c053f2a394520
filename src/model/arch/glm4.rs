//! GLM 4: norms before and after each block, gate and up in one product; RoPE rotates a part of each head.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?;
    f.post_norms = true;
    f.plan(gguf)
}
