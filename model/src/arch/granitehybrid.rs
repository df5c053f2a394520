//! Granite 4: Mamba 2 in most layers, attention in some, experts beside a block that all rows share; Granite's factors.

use crate::config::Reader;
use crate::decoder::{Family, Mamba2, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    super::granite::granite(&mut f, &r)?;
    f.mix(|layer| layer.kv_heads == 0, Mamba2(Recurrent::read(&r)?));
    super::granite::rotate_by_key(&mut f, &r)?;
    f.plan(gguf)
}
