//! Qwen3-Next: a gated delta net in three of four layers, attention with a gate in the fourth; experts beside one that all rows
//! share, behind a gate.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    delta_layers(&mut f, &r)?;
    f.plan(gguf)
}

/// The layers that are delta nets, and what the others have.
///
/// # Errors
/// `bad_hparam`.
pub fn delta_layers(f: &mut Family, r: &Reader<'_>) -> Result<()> {
    f.read_recurrent(r)?;
    f.ffn_norm = "post_attention_norm";
    f.q_gated = true;
    let every = r.int("full_attention_interval", Some(4), 1, 1024)?;
    let usual: Vec<usize> = (0..f.c.n_layer).map(|i| usize::from((i + 1) % every != 0)).collect();
    let recurrent = match r.is_flags("attention.recurrent_layers", f.c.n_layer)? {
        Some(flags) => flags.into_iter().map(usize::from).collect(),
        None => usual,
    };
    let delta = f.layers.iter_mut().zip(recurrent).filter(|(_, recurrent)| *recurrent > 0);
    delta.for_each(|(layer, _)| layer.mix = [Some(Mix::Delta), None]);
    Ok(())
}
