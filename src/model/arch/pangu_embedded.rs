//! Pangu Embedded: llama's shape with biases; halves rotate.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}
