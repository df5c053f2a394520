//! StarCoder 2: norms by mean and deviation, GELU, biases.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = Family::neox(gguf)?.layer_norm();
    Family { act: Act::Gelu, ..f }.plan(gguf)
}
