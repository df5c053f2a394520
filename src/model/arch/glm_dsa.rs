//! GLM 5: as DeepSeek 3.2.

use crate::gguf::Gguf;
use crate::model::arch::deepseek32;
use crate::plan::{Gating, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    deepseek32::sparse(gguf, Gating::Sigmoid)
}
