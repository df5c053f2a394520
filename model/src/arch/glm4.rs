//! GLM 4: norms before and after each block, gate and up in one product; RoPE rotates a part of each head.

use crate::config::Reader;
use crate::decoder::{Family, Norms};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Plan, RopeStyle};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    // Those that see pictures rotate halves.
    if f.read_sections(&r, false)? {
        f.rotation.style = RopeStyle::Neox;
    }
    f.norms.after = Some(Norms::AFTER);
    f.plan(gguf)
}
