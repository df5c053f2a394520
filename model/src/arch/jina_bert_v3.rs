//! Jina BERT 3: as BERT, with rotation.

use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = super::bert::encoder(gguf)?;
    f.activate(Act::Gelu);
    f.plan(gguf)
}
