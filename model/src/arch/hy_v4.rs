//! Hunyuan 4: latent attention with a gate and sinks between several residual streams, experts with limits; some models have
//! indexers that choose which positions a row sees, in some layers, for the next ones too.

use crate::config::Reader;
use crate::decoder::{Connections, Family, Keys, LatentAttention, Limits};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    let latent = f.read_mla(&r)?;
    f.attention_scale = None;
    f.mix(|_| true, LatentAttention(latent));
    if r.int("attention.indexer.top_k", Some(0), 0, 1 << 20)? > 0 {
        f.index(&r, Keys::Each, (latent.rope, f.style), f.c.eps)?;
        f.indexer.iter_mut().for_each(|index| index.last = true);
        const KEY: &str = "attention.indexer.types";
        let own = if r.has(KEY) { r.flags(KEY, f.c.n_layer)? } else { vec![false; f.c.n_layer] };
        f.index_layers(&r, &own, 1, |_| true)?;
    } else {
        f.ignore_unused_indexers();
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.limits[0] = Some(Limits { by_layer: r.floats("swiglu_clamp_exp", f.c.n_layer, 0.0)?, before: true });
    let eps = r.float("hyper_connection.epsilon", None, 0.0, 1.0)?;
    f.stack = Rc::new(Connections {
        count: r.int("hyper_connection.count", None, 1, 64)?,
        eps,
        magnitude: r.float("hyper_connection.magnitude", None, -1e3, 1e3)?,
        post_eps: eps,
        rounds: 0,
        mean: false,
    });
    f.plan(gguf)
}
