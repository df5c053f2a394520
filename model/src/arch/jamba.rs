//! Jamba: Mamba 1 in most layers, attention without rotation in some, experts in some.

use crate::config::Reader;
use crate::decoder::{Family, Mamba1, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    f.mix(|layer| layer.kv_heads == 0, Mamba1(Recurrent::read(&r)?));
    for (i, layer) in f.layers.iter_mut().enumerate() {
        layer.ffn.experts = gguf.tensor(&format!("blk.{i}.ffn_gate_inp.weight")).is_some();
    }
    f.moe.normalized = false;
    f.plan(gguf)
}
