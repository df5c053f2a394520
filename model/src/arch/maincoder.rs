//! Maincoder: neighbours rotated, then norms of queries and keys.

use crate::decoder::{Family, QkPlace};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.attention.qk_norm.place = QkPlace::After;
    f.plan(gguf)
}
