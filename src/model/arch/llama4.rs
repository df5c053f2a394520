//! Llama 4: chunks of positions and rotation in three of four layers, whose q and k are normed after it; queries of the fourth
//! grow with the position. Experts weigh what they get, not what they give.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Gating, Mask, Plan, Temperature};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    let chunk = if f.c.window == 0 { 8192 } else { f.c.window };
    let step = r.int("interleave_moe_layer_step", None, 0, 1024)?;
    f.temperature = Some(Temperature { scale: 0.1, floor: 8192, offset: 1.0 });
    f.qk_norm_plain = f.c.n_expert != 128;
    for (i, layer) in f.layers.iter_mut().enumerate() {
        layer.experts = step > 0 && (i + 1) % step == 0;
        match (i + 1) % 4 {
            0 => (layer.rope, layer.temperature) = (None, true),
            _ => layer.mask = Mask::Chunk(chunk),
        }
    }
    f.moe.gating = Gating::Sigmoid;
    f.moe.normalized = false;
    f.moe.weighs_input = true;
    f.plan(gguf)
}
