//! StarCoder 1 and GPT-2: learned positions, norms by mean and deviation, GELU.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?.layer_norm().no_rope();
    f.activate(Act::Gelu);
    f.plan(gguf)
}
