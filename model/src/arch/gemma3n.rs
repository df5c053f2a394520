//! Gemma 3n: four residual streams, embeddings for each layer, sparse gates in the first layers; later layers read the keys and
//! values of earlier ones.

mod altup;

use crate::config::Reader;
use crate::decoder::{Family, Norms, PerLayer, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Mask, Plan};
use std::rc::Rc;

// Files do not say these.
const STREAMS: usize = 4;
const PER_LAYER: usize = 256;
/// Layers with keys and values of their own.
const OWN_KV: usize = 20;
/// Gates of the first layers are cut off below the 95th percentile of a normal distribution.
const SPARSE: (usize, f32) = (10, 1.644_853_6);

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.norms.after = Some(Norms::AFTER);
    f.attention.v_norm = true;
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.embedding.vectors.scaled = false;
    f.attention.scale = Some(1.0);
    f.output.cap = Some(r.factor("final_logit_softcapping", 30.0)?);
    f.embedding.per_layer = Some(PerLayer { width: PER_LAYER, by_ids: true });
    f.layers.iter_mut().take(SPARSE.0).for_each(|layer| layer.ffn.sparse = Some(SPARSE.1));
    f.stack = Rc::new(altup::AltUpStack(STREAMS));
    let base = r.sliding_base(10000.0)?;
    let sliding = r.sliding(f.c.n_layer, 5, false)?;
    f.slide(&sliding, Mask::Window(r.window(&sliding)?), SlidingRope::Unscaled(base));
    for (i, (layer, sliding)) in f.layers.iter_mut().zip(&sliding).enumerate() {
        layer.kv_of = (i >= OWN_KV).then_some(if *sliding { OWN_KV - 2 } else { OWN_KV - 1 });
    }
    f.plan(gguf)
}
