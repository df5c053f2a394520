//! MiniCPM 3: latent attention, with factors of embedding, residual stream and logits.

use crate::config::Reader;
use crate::decoder::{Family, LatentAttention};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let latent = f.read_mla(&r)?;
    f.mix(|_| true, LatentAttention(latent));
    f.embedding.scale = 12.0;
    f.residual.scale = 1.4 / (f.c.n_layer as f32).sqrt();
    f.output.scale = 256.0 / f.c.n_embd as f32;
    f.plan(gguf)
}
