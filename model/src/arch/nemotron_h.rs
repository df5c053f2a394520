//! Nemotron-H and Nemotron 3: each layer is Mamba 2, attention without rotation, or a feed-forward block of squared ReLU.

use crate::config::Reader;
use crate::decoder::{Attention, Family, Mamba2, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    let mamba = Rc::new(Mamba2(Recurrent::read(&r)?));
    f.activate(Act::ReluSquared);
    f.norms.ffn = "attn_norm";
    let moe = f.c.n_expert > 0;
    for layer in &mut f.layers {
        layer.ffn.experts = moe && layer.ffn.width > 0;
        layer.mix = match (layer.ffn.width, layer.kv_heads) {
            (0, 0) => vec![mamba.clone()],
            (0, _) => vec![Rc::new(Attention)],
            _ => Vec::new(),
        };
    }
    f.experts_share_width(&r)?;
    f.moe.latent = r.int("moe_latent_size", Some(0), 0, 1 << 20)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.act = Act::ReluSquared;
    f.plan(gguf)
}
