//! Jina BERT 3: as BERT, with rotation.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let f = super::bert::encoder(gguf)?;
    Family { act: Act::Gelu, ..f }.plan(gguf)
}
