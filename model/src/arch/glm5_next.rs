//! GLM 5 Next: Kimi's delta attention, latent attention without rotation in the other layers, several residual streams that mix,
//! experts with limits. Indexers choose pools of positions that a row sees.

use crate::arch::deepseek32::INDEX_EPS;
use crate::config::Reader;
use crate::decoder::{Connections, Family, Indexer, Keys, KimiDelta, LatentAttention};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};
use std::rc::Rc;

/// Streams.
const STREAMS: u64 = 4;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    let latent = f.read_mla(&r)?;
    f.attention.scale = None;
    if latent.rope > 0 {
        return Err(r.bad("rope.dimension_count", "0", latent.rope));
    }
    let delta = KimiDelta::read(&f, &r)?.bounded(&r)?;
    f.mix(|layer| layer.kv_heads == 0, KimiDelta { eps: 1e-6, ..delta });
    f.mix(|layer| layer.kv_heads > 0, LatentAttention(latent));
    // Rows behind the last whole pool would not be seen.
    if !r.flag("attention.indexer.kpool_select_tail", true)? {
        return Err(r.bad("attention.indexer.kpool_select_tail", "true", false));
    }
    let eps = r.float("attention.layer_norm_epsilon", Some(INDEX_EPS), 0.0, 1.0)?;
    let indexer = Indexer::read(&r, Keys::Gated, (0, f.rotation.style), eps)?;
    let (most, every) = (indexer.most, r.int("attention.indexer.kpool", None, 2, 1 << 10)?);
    if !most.is_multiple_of(every) {
        return Err(r.bad("attention.indexer.top_k", &format!("a multiple of kpool {every}"), most));
    }
    const KEY: &str = "attention.indexer.types";
    let own = if r.has(KEY) { r.flags(KEY, f.c.n_layer)? } else { vec![true; f.c.n_layer] };
    f.index_layers(&r, &own, Indexer { every, ..indexer }, |layer| layer.kv_heads > 0)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.limit_experts(&r)?;
    f.stack = Rc::new(Connections {
        count: r.int("hyper_connection.count", None, STREAMS, STREAMS)?,
        eps: r.float("hyper_connection.epsilon", None, 0.0, 1.0)?,
        magnitude: 2.0,
        post_eps: 0.0,
        rounds: r.int("hyper_connection.sinkhorn_iterations", None, 1, 1024)?,
        mean: true,
    });
    f.plan(gguf)
}
