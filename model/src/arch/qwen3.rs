//! Qwen3, dense and with experts: llama's shape with an RMS norm on every head of q and k before RoPE, which rotates halves; a
//! row's feed-forward block is that of the few experts its router wants most, whose weights are scaled to sum up to 1.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
