//! Nomic BERT: as BERT, with rotation and SwiGLU.

use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::bert::encoder(gguf)?.plan(gguf)
}
