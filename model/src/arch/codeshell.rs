//! CodeShell: as StarCoder 2.

use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    super::starcoder2::plan(gguf)
}
