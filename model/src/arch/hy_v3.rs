//! Hunyuan 3: norms of q and k, experts by sigmoid with one beside them, where a layer has a router.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.experts_where_routed(gguf);
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
