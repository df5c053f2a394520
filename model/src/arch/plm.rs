//! PLM: latent attention, squared ReLU without a gate.

use crate::config::Reader;
use crate::decoder::{Family, LatentAttention, MlaSizes};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let latent = f.read_mla(&r)?;
    f.activate(Act::ReluSquared);
    f.mix(|_| true, LatentAttention(MlaSizes { q_rank: 0, ..latent })); // whatever the keys say
    f.plan(gguf)
}
