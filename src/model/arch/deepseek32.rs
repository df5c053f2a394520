//! DeepSeek 3.2: as DeepSeek 2, with an indexer that chooses which positions a row sees. All are seen here, which is the same in
//! contexts of no more positions than it chooses; longer ones are refused.

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
    f.see_chosen(&Reader::new(gguf)?)?;
    f.plan(gguf)
}
