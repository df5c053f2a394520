//! RWKV 6 in the place of Qwen 2's attention.

use crate::arch::rwkv6;
use crate::decoder::Rwkv6;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    rwkv6::rwkv(gguf, Rc::new(Rwkv6))?.plan(gguf)
}
