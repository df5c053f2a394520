//! Falcon-H1: attention and Mamba 2 beside each other in every layer.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.read_recurrent(&r)?;
    f.layers.iter_mut().for_each(|layer| layer.mix = [Some(Mix::Attention), Some(Mix::Mamba2)]);
    f.tables[0].factors = false;
    f.plan(gguf)
}
