//! Qwen3-VL, the text side: as Qwen3. Rows of text have one position, by which
//! all sections of its rotation go but the fourth.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.read_sections(&Reader::new(gguf)?, true)?;
    f.plan(gguf)
}
