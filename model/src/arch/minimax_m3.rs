//! MiniMax M3: heads of q and k are normed, gpt-oss's gates, experts beside one that all rows share; an indexer chooses blocks of
//! positions that a row sees. All are seen here, which is the same in contexts of no more blocks than it chooses; longer ones are
//! not the default.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.activate(Act::SiluClamped(1.702, 7.0));
    f.moe.act = Act::SiluClamped(1.702, 7.0);
    let blocks = r.int("attention.indexer.top_k", None, 1, 1 << 20)?;
    let chosen = blocks * r.int("attention.indexer.block_size", None, 1, 1 << 20)?;
    f.c.n_ctx_train = f.c.n_ctx_train.min(chosen);
    f.ignored.extend((0..f.c.n_layer).map(|i| format!("blk.{i}.indexer.")));
    Ok(Plan { dense_positions: Some(chosen), ..f.plan(gguf)? })
}
