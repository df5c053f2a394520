//! Qwen2-VL, the text side: as Qwen2. Rows of text have one position, by which
//! all sections of its rotation go but the fourth.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.read_sections(&Reader::new(gguf)?, false)?;
    f.plan(gguf)
}
