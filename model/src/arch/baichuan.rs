//! Baichuan: llama's shape; the one of 13B has ALiBi instead of RoPE.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    if f.c.n_layer == 40 {
        f = f.no_rope();
        f.attention.alibi = Some(8.0);
    }
    f.plan(gguf)
}
