//! PLM: latent attention, squared ReLU without a gate.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    f.read_mla(&r)?;
    f.mla.q_rank = 0; // whatever the keys say
    f.act = Act::ReluSquared;
    f.layers.iter_mut().for_each(|layer| layer.mix = [Some(Mix::Mla), None]);
    f.plan(gguf)
}
