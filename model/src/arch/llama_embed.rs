//! Llama as an encoder: the same layers, and embeddings come out; what rows see is for `attention.causal` to say.

use crate::decoder::{Family, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    f.output.rows = OutputRows::Embeddings;
    f.plan(gguf)
}
