//! Arcee: llama's shape with squared ReLU and no gate.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = Family::of(gguf)?;
    Family { act: Act::ReluSquared, ..f }.plan(gguf)
}
