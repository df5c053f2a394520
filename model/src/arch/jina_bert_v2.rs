//! Jina BERT 2: as BERT, with ALiBi instead of positions, gated or not, with a norm more in some files.

use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = super::bert::encoder(gguf)?.no_rope();
    f.activate(Act::Gelu);
    f.attention.alibi = Some(8.0);
    f.plan(gguf)
}
