//! Kimi K3: as Kimi Linear, with gates of latent attention, experts that work on fewer columns, gates by tanh and sigmoid, and blocks
//! that see what the residual stream was some layers before.

mod checkpoints;

use crate::config::Reader;
use crate::decoder::{Family, KimiDelta, LatentAttention, Limit};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    let latent = f.read_mla(&r)?;
    f.attention.scale = None;
    let delta = KimiDelta::read(&f, &r)?.bounded(&r)?;
    f.mix(|layer| layer.kv_heads == 0, delta);
    f.mix(|layer| layer.kv_heads > 0, LatentAttention(latent));
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.act = Act::Situ(r.float("activation.situ_beta", None, 1e-6, 1e9)?);
    f.activate(f.moe.act);
    let cap = r.float("activation.situ_linear_beta", None, -1e9, 1e9)?;
    let cap = (cap > 0.0).then_some(Limit::Cap(cap));
    f.layers.iter_mut().for_each(|layer| layer.ffn.limits = [cap; 2]);
    f.moe.latent = r.int("expert_latent_length", Some(0), 0, 1 << 20)?;
    let every = r.int("attn_res.block_size", None, 0, 1024)?;
    if every > 0 {
        f.stack = Rc::new(checkpoints::CheckpointStack(every));
    }
    f.plan(gguf)
}
