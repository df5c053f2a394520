//! Qwen3-Next: a gated delta net in three of four layers, attention with a gate in the fourth; experts beside one that all rows
//! share, behind a gate.

use crate::config::Reader;
use crate::decoder::{DeltaNet, Family, Recurrent};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    delta_layers(&mut f, &r, delta_net(&r)?)?;
    f.plan(gguf)
}

/// Reads the sizes of delta nets.
///
/// # Errors
/// `bad_hparam`.
pub fn delta_net(r: &Reader<'_>) -> Result<DeltaNet> {
    Ok(DeltaNet { sizes: Recurrent::read(r)?, tiled: false, gate: Act::Silu })
}

/// Sets which layers are delta nets, and what the others have; says which.
///
/// # Errors
/// `bad_hparam`.
pub fn delta_layers(f: &mut Family, r: &Reader<'_>, net: DeltaNet) -> Result<Vec<bool>> {
    f.norms.ffn = "post_attention_norm";
    f.attention.q_gated = true;
    let every = r.int("full_attention_interval", Some(4), 1, 1024)?;
    let usual = || (0..f.c.n_layer).map(|i| (i + 1) % every != 0).collect();
    let recurrent: Vec<bool> = r.is_flags("attention.recurrent_layers", f.c.n_layer)?.unwrap_or_else(usual);
    let delta = f.layers.iter_mut().zip(&recurrent).filter(|(_, recurrent)| **recurrent);
    delta.for_each(|(layer, _)| layer.mix = vec![Rc::new(net)]);
    Ok(recurrent)
}
