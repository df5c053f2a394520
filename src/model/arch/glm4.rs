//! GLM 4: norms before and after each block, gate and up in one product; RoPE rotates a part of each head.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Plan, RopeStyle};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    // Those that see pictures rotate halves.
    if f.read_sections(&r, false)? {
        f.style = RopeStyle::Neox;
    }
    f.post_norms = true;
    f.plan(gguf)
}
