//! GPT-2: learned positions, norms by mean and deviation, GELU, one product for q, k and v.

use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::starcoder::plan(gguf)
}
