//! Qwen 3.5 to 3.8, the text side, dense and with experts: as Qwen3-Next, with products of their own for decay and rate.

use crate::config::Reader;
use crate::decoder::{DeltaNet, Family};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.read_sections(&r, true)?;
    let delta = super::qwen3next::delta_net(&r)?;
    super::qwen3next::delta_layers(&mut f, &r, DeltaNet { tiled: true, ..delta })?;
    f.plan(gguf)
}
