//! CogVLM, the text side: as llama with halves rotated; weights for pictures are not read.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.ignored.extend((0..f.c.n_layer).map(|i| format!("blk.{i}.vis_")));
    f.embedding.vectors.allowed = false; // rows of pictures take those weights
    f.plan(gguf)
}
