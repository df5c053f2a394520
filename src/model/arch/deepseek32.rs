//! DeepSeek 3.2: as DeepSeek 2, with an indexer that chooses which positions a row sees. All are seen here, which is the same in
//! contexts of no more positions than it chooses; longer ones are not the default.

use crate::gguf::Gguf;
use crate::model::arch::deepseek2;
use crate::model::config::Reader;
use crate::plan::{Gating, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    sparse(gguf, Gating::Softmax)
}

/// Latent attention whose indexer is not read.
///
/// # Errors
/// As [`Family::of`](crate::model::decoder::Family::of).
pub fn sparse(gguf: &Gguf, gating: Gating) -> Result<Plan> {
    let mut f = deepseek2::latent(gguf, gating)?;
    let chosen = Reader::new(gguf)?.int("attention.indexer.top_k", None, 1, 1 << 20)?;
    f.c.n_ctx_train = f.c.n_ctx_train.min(chosen);
    f.ignored.extend((0..f.c.n_layer).map(|i| format!("blk.{i}.indexer")));
    f.plan(gguf)
}
