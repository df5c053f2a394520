//! StarCoder 1: learned positions, norms by mean and deviation, GELU.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = Family::of(gguf)?.layer_norm().no_rope();
    Family { act: Act::Gelu, ..f }.plan(gguf)
}
