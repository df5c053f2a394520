//! NeoBERT: llama's shape with gate and up in one matrix; rows see all rows of their text, and embeddings come out.

use crate::decoder::{Family, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.see_all();
    f.output.rows = OutputRows::Embeddings;
    f.norms.last = Some("enc.output_norm");
    f.plan(gguf)
}
