//! Mistral 3, Ministral, Devstral: llama's shape; queries grow with the position.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Plan, Temperature};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let scale = r.float("attention.temperature_scale", Some(0.0), -1e3, 1e3)?;
    if scale != 0.0 {
        let before = Some(f.c.n_ctx_train as u64);
        let floor = r.int("rope.scaling.original_context_length", before, 1, u64::from(u32::MAX))?;
        let temperature = Some(Temperature { scale, floor: floor as u32, offset: 0.0 });
        f.layers.iter_mut().for_each(|layer| layer.temperature = temperature);
    }
    f.attention.scale = r.has("attention.scale").then_some(r.factor("attention.scale", 0.0)?).filter(|s| *s != 0.0);
    f.plan(gguf)
}
