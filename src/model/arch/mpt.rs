//! MPT: ALiBi or learned positions, norms by mean and deviation; q, k and v may be clamped.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?.layer_norm().no_rope();
    f.act = Act::Gelu;
    f.alibi = Some(r.factor("attention.max_alibi_bias", 0.0)?).filter(|b| *b > 0.0);
    f.clamp_kqv = Some(r.factor("attention.clamp_kqv", 0.0)?).filter(|c| *c > 0.0);
    f.plan(gguf)
}
