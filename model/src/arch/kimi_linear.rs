//! Kimi Linear: delta attention in three of four layers, latent attention without rotation in the fourth.

use crate::config::Reader;
use crate::decoder::{Family, KimiDelta, LatentAttention};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    let latent = f.read_mla(&r)?;
    let delta = KimiDelta::read(&f, &r)?;
    f.mix(|layer| layer.kv_heads == 0, delta);
    f.mix(|layer| layer.kv_heads > 0, LatentAttention(latent));
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.normalized = true;
    f.plan(gguf)
}
