//! Gemma Embedding 2: as Gemma 4 with rows that see all rows of their text, in sliding layers half a window to either side; what
//! layers add follows from the embedded rows alone, and embeddings have a product of their own.

use crate::config::Reader;
use crate::decoder::{Family, Norms, OutputRows, PerLayer};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.see_all();
    f.norms.after = Some(Norms::AFTER);
    f.attention.v_norm = true;
    f.activate(Act::Gelu);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.embedding.vectors.scaled = false;
    f.attention.scale = Some(1.0);
    f.output.rows = OutputRows::Projected(match r.int("embedding_length_out", Some(0), 0, 1 << 16)? {
        0 => f.c.n_embd,
        wide => wide,
    });
    let width = r.int("embedding_length_per_layer_input", None, 1, 1 << 16)?;
    f.embedding.per_layer = Some(PerLayer { width, by_ids: false });
    f.c.window = r.int("attention.sliding_window", None, 1, u64::from(u32::MAX))?;
    f.rotation.tables[0].factors = false;
    let sliding = r.sliding(f.c.n_layer, 6, false)?;
    f.slide_around(&r, &sliding)?;
    f.sliding_table(r.int("rope.dimension_count_swa", Some(f.c.rope_dims as u64), 2, 1024)?);
    let k_dim = r.int("attention.key_length_swa", Some(f.c.k_dim as u64), 8, 576)?;
    let v_dim = r.int("attention.value_length_swa", Some(f.c.v_dim as u64), 8, 576)?;
    for (layer, _) in f.layers.iter_mut().zip(&sliding).filter(|(_, sliding)| **sliding) {
        (layer.k_dim, layer.v_dim) = (k_dim, v_dim);
    }
    f.plan(gguf)
}
