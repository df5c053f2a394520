//! Falcon-H1: attention and Mamba 2 beside each other in every layer.

use crate::config::Reader;
use crate::decoder::{Attention, Family, Mamba2, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let mamba = Rc::new(Mamba2(Recurrent::read(&r)?));
    f.layers.iter_mut().for_each(|layer| layer.mix = vec![Rc::new(Attention), mamba.clone()]);
    f.rotation.tables[0].factors = false;
    f.plan(gguf)
}
