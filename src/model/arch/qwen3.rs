//! Qwen3 dense: llama's shape with an RMS norm on every head of q and k before RoPE, which rotates halves.

use super::llama::decoder;
use crate::gguf::Gguf;
use crate::plan::{Plan, RopeStyle};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    decoder(gguf, RopeStyle::Neox, true, false)
}
