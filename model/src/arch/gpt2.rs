//! GPT-2: learned positions, norms by mean and deviation, GELU, one product for q, k and v.

use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::starcoder::plan(gguf)
}
