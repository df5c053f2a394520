//! PLM: latent attention, squared ReLU without a gate.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, Mix};
use crate::plan::{Act, Plan};
use crate::Result;

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
