//! Hunyuan 4: latent attention with a gate and sinks between several residual streams, experts with limits; some models have
//! indexers that choose which positions a row sees, in some layers, for the next ones too.

use crate::config::Reader;
use crate::decoder::{Connections, Family, Indexer, Keys, LatentAttention, Limit, Limited};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let latent = f.read_mla(&r)?;
    f.attention.scale = None;
    f.mix(|_| true, LatentAttention(latent));
    if r.int("attention.indexer.top_k", Some(0), 0, 1 << 20)? > 0 {
        let indexer = Indexer::read(&r, Keys::Each, (latent.rope, f.rotation.style), f.c.eps)?;
        const KEY: &str = "attention.indexer.types";
        let own = if r.has(KEY) { r.flags(KEY, f.c.n_layer)? } else { vec![false; f.c.n_layer] };
        f.index_layers(&r, &own, Indexer { last: true, ..indexer }, |_| true)?;
    } else {
        f.ignore_unused_indexers();
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.limit(&r, "swiglu_clamp_exp", Limited::Experts, Limit::Before)?;
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
