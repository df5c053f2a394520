//! Gemma 4, dense, E-series and with experts: norms before and after each block, of q, k and v; heads of sliding layers have a
//! width of their own; the last layers read keys and values of earlier ones; embeddings for each layer.

use crate::config::Reader;
use crate::decoder::{BesideExperts, Family, Norms, PerLayer, SlidingRope};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, GroupSight, Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.activate(Act::Gelu);
    f.norms.after = Some(Norms::AFTER);
    f.attention.v_norm = true;
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.embedding.vectors.scaled = false;
    f.embedding.vectors.sight = GroupSight::Windows;
    f.attention.scale = Some(1.0);
    let width = r.int("embedding_length_per_layer_input", Some(0), 0, 1 << 16)?;
    f.embedding.per_layer = (width > 0).then_some(PerLayer { width, by_ids: true });
    let cap = r.factor("final_logit_softcapping", 30.0)?;
    f.output.cap = (cap != 0.0).then_some(cap);
    f.experts_where_routed(gguf);
    (f.moe.beside, f.moe.act) = (BesideExperts::DenseNormed, Act::Gelu);
    let dims = r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, 1024)?;
    let base = r.sliding_base(10000.0)?;
    let sliding = r.sliding(f.c.n_layer, 0, false)?;
    f.slide(&sliding, Mask::Window(r.window(&sliding)?), SlidingRope::Unscaled(base));
    f.sliding_table(dims);
    let k_dim = r.int("attention.key_length_swa", Some(f.c.k_dim as u64), 8, 576)?;
    let v_dim = r.int("attention.value_length_swa", Some(f.c.v_dim as u64), 8, 576)?;
    let shared = r.int("attention.shared_kv_layers", Some(0), 0, f.c.n_layer as u64 - 1)?;
    let own = f.c.n_layer - shared;
    for (i, (layer, sliding)) in f.layers.iter_mut().zip(&sliding).enumerate() {
        if *sliding {
            (layer.k_dim, layer.v_dim) = (k_dim, v_dim);
        }
        layer.kv_of = (i >= own).then(|| own.saturating_sub(if *sliding { 2 } else { 1 }));
    }
    f.plan(gguf)
}
