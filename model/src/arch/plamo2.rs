//! PLaMo 2: Mamba layers of its own kind between those of attention, norms after each block.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.post_norms = true;
    f.read_recurrent(&r)?;
    f.recurrent.groups = 1;
    f.attention_scale = Some(1.0 / (f.c.v_dim as f32).sqrt());
    for layer in f.layers.iter_mut().filter(|layer| layer.kv_heads == 0) {
        layer.mix = [Some(Mix::PlamoMamba), None];
    }
    f.plan(gguf)
}
