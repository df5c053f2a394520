//! Llama as an encoder: the same layers, and embeddings come out; what rows see is for `attention.causal` to say.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family { embeds: true, ..Family::of(gguf)? }.plan(gguf)
}
