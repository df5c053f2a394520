//! EuroBERT: llama's shape with halves rotated; rows see all rows of their text, and embeddings come out.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    Family { embeds: true, ..f }.plan(gguf)
}
