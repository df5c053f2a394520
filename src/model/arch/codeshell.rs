//! CodeShell: as StarCoder 2.

use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::starcoder2::plan(gguf)
}
