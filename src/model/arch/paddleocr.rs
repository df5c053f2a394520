//! PaddleOCR, the text side: as ERNIE 4.5.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    f.read_sections(&Reader::new(gguf)?, false)?;
    f.layers.iter_mut().for_each(|layer| layer.experts = false);
    f.plan(gguf)
}
