//! Qwen 1: one product for q, k and v; its `feed_forward_length` counts gate and up.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.layers.iter_mut().for_each(|layer| layer.n_ff /= 2);
    f.plan(gguf)
}
