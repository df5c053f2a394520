//! DeepSeek 3.2: as DeepSeek 2, with an indexer in each layer that chooses which positions a row sees.

use crate::arch::deepseek2;
use crate::config::Reader;
use crate::decoder::{Indexer, Keys};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan, RopeStyle};

/// Epsilon of the norms of an indexer's keys.
pub const INDEX_EPS: f32 = 1e-6;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    sparse(gguf, (Gating::Softmax, RopeStyle::Neox), |_, n| Ok(vec![true; n]))
}

/// Latent attention over positions that indexers choose; `own` says of the model's layers which have one, whose
/// heads rotate by pairs of `style`.
///
/// # Errors
/// What is wrong with the file's keys.
pub fn sparse(
    gguf: &Gguf,
    (gating, style): (Gating, RopeStyle),
    own: impl Fn(&Reader<'_>, usize) -> Result<Vec<bool>>,
) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = deepseek2::latent(gguf, gating)?;
    let indexer = Indexer::read(&r, Keys::Each, (f.rotation.tables[0].dims, style), INDEX_EPS)?;
    f.index_layers(&r, &own(&r, f.c.n_layer)?, indexer, |_| true)?;
    f.plan(gguf)
}
