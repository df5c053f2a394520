//! BLOOM: ALiBi instead of positions, a norm of the embedding, norms by mean and deviation.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?.layer_norm().no_rope();
    f.act = Act::Gelu;
    f.alibi = Some(8.0);
    f.plan(gguf)
}
