//! Ling 3: Kimi's delta attention with fading that is bounded, latent attention with a gate for each head in the other layers, experts
//! with limits.

use crate::config::Reader;
use crate::decoder::{Family, KimiDelta, LatentAttention, Limit, Limited};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan, RopeStyle};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let latent = f.read_mla(&r)?;
    f.attention.scale = None;
    let delta = KimiDelta::read(&f, &r)?;
    if !r.flag("kda.safe_gate", true)? {
        return Err(r.bad("kda.safe_gate", "true", false));
    }
    let bound = Some((r.float("kda.gate_lower_bound", None, -1e3, -1e-6)?, 1.0));
    // Those that see pictures rotate halves.
    if f.read_sections(&r, false)? {
        f.rotation.style = RopeStyle::Neox;
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.limit(&r, "swiglu_clamp_exp", Limited::Experts, Limit::After)?;
    f.limit(&r, "swiglu_clamp_shexp", Limited::Dense, Limit::After)?;
    f.mix(|layer| layer.kv_heads == 0, KimiDelta { bound, ..delta });
    f.mix(|layer| layer.kv_heads > 0, LatentAttention(latent));
    f.plan(gguf)
}
