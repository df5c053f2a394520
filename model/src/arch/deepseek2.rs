//! DeepSeek 2 to 3.1, Kimi K2, GLM 4.7 Flash, Mistral 4: latent attention, experts in groups beside some that all rows share.

use crate::config::Reader;
use crate::decoder::{Family, LatentAttention};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan, Temperature};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = latent(gguf, Gating::Softmax)?;
    let scale = r.float("attention.temperature_scale", Some(0.0), -1e3, 1e3)?;
    if scale != 0.0 {
        let before = Some(f.c.n_ctx_train as u64);
        let floor = r.int("rope.scaling.original_context_length", before, 1, u64::from(u32::MAX))?;
        let temperature = Some(Temperature { scale, floor: floor as u32, offset: 0.0 });
        f.layers.iter_mut().for_each(|layer| layer.temperature = temperature);
    }
    f.plan(gguf)
}

/// Latent attention in every layer, experts after the first layers; by `gating` if the file does not say.
///
/// # Errors
/// What is wrong with the file's keys.
pub fn latent(gguf: &Gguf, gating: Gating) -> Result<Family> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let latent = f.read_mla(&r)?;
    f.mix(|_| true, LatentAttention(latent));
    f.dense_first(&r)?;
    f.route_by_keys(&r, gating)?;
    Ok(f)
}
