//! Qwen3, dense and with experts: llama's shape with an RMS norm on every head of q and k before RoPE, which rotates halves; a
//! row's feed-forward block is that of the few experts its router wants most, whose weights are scaled to sum up to 1.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
