//! Maincoder: as Qwen3, with neighbours rotated.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::of(gguf)?.plan(gguf)
}
