//! NeoBERT: llama's shape with gate and up in one matrix; rows see all rows of their text, and embeddings come out.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::of(gguf)?;
    f.see_all();
    Family { embeds: true, output_norm: Some("enc.output_norm"), ..f }.plan(gguf)
}
