//! Maincoder: neighbours rotated, then norms of queries and keys.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family { qk_norm_after: true, ..Family::of(gguf)? }.plan(gguf)
}
