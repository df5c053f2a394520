//! EuroBERT: llama's shape with halves rotated; rows see all rows of their text, and embeddings come out.

use crate::decoder::{Family, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.output.rows = OutputRows::Embeddings;
    f.plan(gguf)
}
