//! Deci and Nemotron Super: llama's shape; layers differ, and some lack attention or the feed-forward block.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::of(gguf)?.plan(gguf)
}
