//! Gemma Embedding: as Gemma 3, but rows see all rows of their text, in five of six layers half a window to either side.

use crate::config::Reader;
use crate::decoder::{Family, Norms, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.see_all();
    (f.output.rows, f.norms.after) = (OutputRows::Embeddings, Some(Norms::AFTER));
    f.activate(Act::Gelu);
    f.embedding.scale = (f.c.n_embd as f32).sqrt();
    f.embedding.vectors.scaled = false;
    f.c.window = r.int("attention.sliding_window", None, 1, u64::from(u32::MAX))?;
    let sliding = r.sliding(f.c.n_layer, 6, false)?;
    f.slide_around(&r, &sliding)?;
    f.plan(gguf)
}
