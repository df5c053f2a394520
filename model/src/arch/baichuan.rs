//! Baichuan: llama's shape; the one of 13B has ALiBi instead of RoPE.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = Family::of(gguf)?;
    match f.c.n_layer {
        40 => Family { alibi: Some(8.0), ..f.no_rope() }.plan(gguf),
        _ => f.plan(gguf),
    }
}
