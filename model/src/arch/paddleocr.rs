//! PaddleOCR, the text side: as ERNIE 4.5.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.read_sections(&Reader::new(gguf)?, false)?;
    f.layers.iter_mut().for_each(|layer| layer.ffn.experts = false);
    f.plan(gguf)
}
