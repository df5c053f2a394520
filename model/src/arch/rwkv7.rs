//! RWKV 7: as RWKV 6, with a state that forgets what it is told to.

use crate::arch::rwkv6;
use crate::decoder::Rwkv7;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = rwkv6::rwkv(gguf, Rc::new(Rwkv7))?.layer_norm();
    f.norms.ffn = "attn_norm_2";
    f.plan(gguf)
}
