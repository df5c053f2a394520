//! Qwen 2 and 2.5: llama's shape with biases of q, k and v; RoPE rotates halves.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
