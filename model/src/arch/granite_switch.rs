//! Granite with adapters that ids of the text turn on.

mod switch;

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use std::rc::Rc;
use switch::Switch;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    super::granite::granite(&mut f, &r)?;
    super::granite::rotate_by_key(&mut f, &r)?;
    let n = r.int("adapters.count", None, 0, 4096)?;
    let ids = |key: &str| r.by_layer(key, n, None, 1 << 24);
    let switch = Switch {
        ids: ids("adapters.token_ids_activate")?,
        instead: ids("adapters.token_ids_substitute")?,
        gain: r.float("adapters.router_gain", Some(15.0), 0.0, 1e4)?,
        rank: r.int("adapters.lora_rank", None, 1, 4096)?,
    };
    f.numbers = switch.numbers(f.c.k_dim);
    f.stack = Rc::new(switch);
    f.embedding.vectors.allowed = false; // what the switch does follows from ids
    f.plan(gguf)
}
