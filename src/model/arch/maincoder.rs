//! Maincoder: neighbours rotated, then norms of queries and keys.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family { qk_norm_after: true, ..Family::of(gguf)? }.plan(gguf)
}
