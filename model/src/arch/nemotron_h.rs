//! Nemotron-H and Nemotron 3: each layer is Mamba 2, attention without rotation, or a feed-forward block of squared ReLU.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?.no_rope();
    f.read_recurrent(&r)?;
    f.act = Act::ReluSquared;
    f.ffn_norm = "attn_norm";
    let moe = f.c.n_expert > 0;
    for layer in &mut f.layers {
        layer.experts = moe && layer.n_ff > 0;
        layer.mix[0] = match (layer.n_ff, layer.kv_heads) {
            (0, 0) => Some(Mix::Mamba2),
            (0, _) => Some(Mix::Attention),
            _ => None,
        };
    }
    f.experts_share_width(&r)?;
    f.moe.latent = r.int("moe_latent_size", Some(0), 0, 1 << 20)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.act = Act::ReluSquared;
    f.plan(gguf)
}
