//! Kimi Linear: delta attention in three of four layers, latent attention without rotation in the fourth.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?.no_rope();
    f.read_mla(&r)?;
    f.read_kda(&r)?;
    for layer in &mut f.layers {
        layer.mix = [Some(if layer.kv_heads == 0 { Mix::Kda } else { Mix::Mla }), None];
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.normalized = true;
    f.plan(gguf)
}
