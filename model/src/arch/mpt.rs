//! MPT: ALiBi or learned positions, norms by mean and deviation; q, k and v may be clamped.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.layer_norm().no_rope();
    f.activate(Act::Gelu);
    f.attention.alibi = Some(r.factor("attention.max_alibi_bias", 0.0)?).filter(|b| *b > 0.0);
    f.attention.clamp = Some(r.factor("attention.clamp_kqv", 0.0)?).filter(|c| *c > 0.0);
    f.plan(gguf)
}
