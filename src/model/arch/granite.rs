//! Granite 3, dense and with experts: factors of embedding, attention, residual stream and logits.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    granite(&mut f, &r)?;
    f.plan(gguf)
}

/// The factors that all Granites have.
///
/// # Errors
/// `bad_hparam`.
pub fn granite(f: &mut Family, r: &Reader<'_>) -> Result<()> {
    f.embedding_scale = r.factor("embedding_scale", 1.0)?;
    f.residual_scale = r.factor("residual_scale", 1.0)?;
    f.logit_scale = 1.0 / r.factor("logit_scale", 1.0)?;
    f.attention_scale = Some(r.factor("attention.scale", 0.0)?).filter(|s| *s != 0.0);
    // granitemoe and granite_swa have no such switch; granitehybrid reads its own.
    if r.arch == "granite" && !r.flag("rope.scaling.finetuned", true)? {
        f.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    Ok(())
}
