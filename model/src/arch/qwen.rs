//! Qwen 1: one product for q, k and v; its `feed_forward_length` counts gate and up.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.layers.iter_mut().for_each(|layer| layer.ffn.width /= 2);
    f.plan(gguf)
}
