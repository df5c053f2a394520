//! RWKV 7 in the place of Qwen 2's attention.

use crate::gguf::Gguf;
use crate::model::arch::rwkv6;
use crate::model::decoder::Mix;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    rwkv6::rwkv(gguf, Mix::Rwkv7)?.plan(gguf)
}
