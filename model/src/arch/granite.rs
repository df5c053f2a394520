//! Granite 3, dense and with experts: factors of embedding, attention, residual stream and logits.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    granite(&mut f, &r)?;
    rotate_by_key(&mut f, &r)?;
    f.embedding.vectors.read_mapping(&r, f.c.n_layer)?;
    f.plan(gguf)
}

/// Those with experts, which always rotate.
///
/// # Errors
/// What is wrong with the file's keys.
pub fn with_experts(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::llama(gguf)?;
    granite(&mut f, &Reader::new(gguf)?)?;
    f.plan(gguf)
}

/// Granites that have a switch for it rotate nothing where it is off.
///
/// # Errors
/// `bad_hparam`.
pub fn rotate_by_key(f: &mut Family, r: &Reader<'_>) -> Result<()> {
    if !r.flag("rope.scaling.finetuned", true)? {
        f.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    Ok(())
}

/// The factors that all Granites have.
///
/// # Errors
/// `bad_hparam`.
pub fn granite(f: &mut Family, r: &Reader<'_>) -> Result<()> {
    f.embedding.scale = r.factor("embedding_scale", 1.0)?;
    f.residual.scale = r.factor("residual_scale", 1.0)?;
    f.output.scale = 1.0 / r.factor("logit_scale", 1.0)?;
    f.attention.scale = Some(r.factor("attention.scale", 0.0)?).filter(|s| *s != 0.0);
    Ok(())
}
