//! Deci and Nemotron Super: llama's shape; layers differ, and some lack attention or the feed-forward block.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::llama(gguf)?.plan(gguf)
}
