//! MiniMax M2: q and k are normed as a whole; experts are routed by sigmoid and a bias.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.normalized = true;
    f.plan(gguf)
}
