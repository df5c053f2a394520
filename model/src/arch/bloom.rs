//! BLOOM: ALiBi instead of positions, a norm of the embedding, norms by mean and deviation.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?.layer_norm().no_rope();
    f.activate(Act::Gelu);
    f.attention.alibi = Some(8.0);
    f.plan(gguf)
}
