//! Llama 4: chunks of positions and rotation in three of four layers, whose q and k are normed after it; queries of the fourth
//! grow with the position. Experts weigh what they get, not what they give.

use crate::config::Reader;
use crate::decoder::{Family, QkPlace, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan, Temperature};

/// Positions of a chunk, whatever a file says but 0, which is none.
const CHUNK: usize = 8192;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let chunked = f.c.window > 0 || !r.has("attention.sliding_window");
    let step = r.int("interleave_moe_layer_step", None, 0, 1024)?;
    if chunked {
        let sliding = r.sliding(f.c.n_layer, 4, false)?;
        f.slide(&sliding, Mask::Chunk(CHUNK), SlidingRope::Scaled(r.sliding_base(f.c.rope_base)?));
    }
    let temperature = Temperature { scale: 0.1, floor: 8192, offset: 1.0 };
    if f.c.n_expert != 128 {
        f.attention.qk_norm.place = QkPlace::AfterWithoutWeights;
    }
    for (i, layer) in f.layers.iter_mut().enumerate() {
        layer.ffn.experts = step > 0 && (i + 1) % step == 0;
        if chunked && (i + 1) % 4 == 0 {
            (layer.rope, layer.temperature) = (None, Some(temperature));
        }
    }
    f.moe.gating = Gating::Sigmoid;
    f.moe.normalized = false;
    f.moe.weighs_input = true;
    f.plan(gguf)
}
