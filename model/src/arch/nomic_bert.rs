//! Nomic BERT: as BERT, with rotation and SwiGLU.

use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::bert::encoder(gguf)?.plan(gguf)
}
