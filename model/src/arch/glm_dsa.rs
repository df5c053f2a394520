//! GLM 5: as DeepSeek 3.2; since 5.2 most layers take what the last indexer before them chose.

use crate::arch::deepseek32;
use crate::config::Reader;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan, RopeStyle};

/// Contexts of models whose files need not say which layers have an indexer: the first two, then one in four.
const SHARING_FROM: u64 = 1 << 20;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    deepseek32::sparse(gguf, (Gating::Sigmoid, RopeStyle::Norm), own)
}

fn own(r: &Reader<'_>, n: usize) -> Result<Vec<bool>> {
    const KEY: &str = "attention.indexer.types";
    if r.has(KEY) {
        return r.flags(KEY, n);
    }
    let shares = r.int("context_length", None, 1, u64::from(u32::MAX))? as u64 >= SHARING_FROM;
    Ok((0..n).map(|i| !shares || i < 2 || (i - 2).is_multiple_of(4)).collect())
}
