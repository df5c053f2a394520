//! Llama 1 to 3.x, Mixtral and models of their shape: RMS norm, GQA with neighbour RoPE, SwiGLU or experts; optional biases,
//! optional frequency factors (`rope_freqs.weight`), output tied to the embedding if `output.weight` is missing.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::llama(gguf)?.plan(gguf)
}
