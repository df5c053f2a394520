//! Jina BERT 3: as BERT, with rotation.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = super::bert::encoder(gguf)?;
    Family { act: Act::Gelu, ..f }.plan(gguf)
}
