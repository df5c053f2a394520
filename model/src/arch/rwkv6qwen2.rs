//! RWKV 6 in the place of Qwen 2's attention.

use crate::arch::rwkv6;
use crate::decoder::Mix;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    rwkv6::rwkv(gguf, Mix::Rwkv6)?.plan(gguf)
}
