//! Qwen3-VL, the text side: as Qwen3. Rows of text have one position, by which
//! all sections of its rotation go but the fourth. Rows of pictures have parts for the first layers, too.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    let r = Reader::new(gguf)?;
    f.read_sections(&r, true)?;
    f.embedding.vectors.read_deepstack(&r, f.c.n_layer)?;
    f.plan(gguf)
}
