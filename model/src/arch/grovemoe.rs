//! GroveMoE: Qwen 3's experts, of which neighbours share a small one that sees what they gave.

mod small;

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use small::Grove;
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let experts = r.int("expert_count", None, 1, 2048)?;
    f.experts_share_width(&r)?;
    f.moe.scale = 1.0;
    let sharing = r.int("experts_per_group", None, 1, experts as u64)?;
    if !experts.is_multiple_of(sharing) {
        return Err(r.bad("experts_per_group", &format!("a divisor of expert_count {experts}"), sharing));
    }
    // 0 means "not given".
    let ffn = r.int("expert_chunk_feed_forward_length", Some(0), 0, 1 << 24)?;
    let ffn = if ffn == 0 { f.c.k_dim } else { ffn };
    let scale = r.float("expert_group_scale", None, -1e9, 1e9)?;
    f.moe.small = Some(Rc::new(Grove { sharing, ffn, scale }));
    f.plan(gguf)
}
