//! PLaMo 2: Mamba layers of its own kind between those of attention, norms after each block.

mod mamba;

use crate::config::Reader;
use crate::decoder::{Family, Norms, Recurrent};
use mamba::PlamoMamba;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.after = Some(Norms::AFTER);
    f.attention.scale = Some(1.0 / (f.c.v_dim as f32).sqrt());
    let sizes = Recurrent { groups: 1, ..Recurrent::read(&r)? };
    f.mix(|layer| layer.kv_heads == 0, PlamoMamba(sizes));
    f.plan(gguf)
}
