//! Qwen 4, as it is tried out: layers as in Qwen 3.5 with experts, between several residual streams that are gated. Indexers
//! choose blocks of positions that a row sees. Embeddings of several ids together are not there.
//!
//! A block's positions score alike, so that a budget that ends within a block leaves open which of them are seen. The first are,
//! here; in llama.cpp it depends on the order of its heap. Goldens compare rows where nothing is left open.

mod gated_streams;

use crate::config::Reader;
use crate::decoder::{DeltaNet, Family, Index, Indexer, Keys};
use gated_streams::GatedStreams;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    if r.has("ple.layers") {
        return Err(r.bad("ple.layers", "no embeddings of several ids together, which are not supported", "the key"));
    }
    f.read_sections(&r, true)?;
    let delta = super::qwen3next::delta_net(&r)?;
    let s = delta.sizes;
    let recurrent = super::qwen3next::delta_layers(&mut f, &r, DeltaNet { tiled: true, gate: Act::Sigmoid, ..delta })?;
    if s.inner != s.heads * s.state {
        let what = format!("time_step_rank times state_size, {}", s.heads * s.state);
        return Err(r.bad("ssm.inner_size", &what, s.inner));
    }
    f.norms.before = false;
    f.norms.last = None; // every block's streams have one of their own
    f.stack = Rc::new(GatedStreams {
        count: r.int("hyper_connection.count", None, 2, 64)?,
        rank: r.int("hyper_connection.low_rank", None, 1, 1 << 16)?,
    });
    f.experts_share_width(&r)?;
    let every = r.by_layer("attention.compress_ratios", f.c.n_layer, Some(&vec![0; f.c.n_layer]), 1 << 16)?;
    if every.iter().any(|rows| *rows > 0) {
        let rope = f.rotation.tables[0].dims;
        let indexer = Indexer::read(&r, Keys::Mean, (rope, f.rotation.style), f.c.eps)?;
        for (i, (layer, every)) in f.layers.iter_mut().zip(&every).enumerate() {
            if *every > 0 && !recurrent[i] && !layer.mix.is_empty() {
                layer.index = Index::Own(Indexer { every: *every, ..indexer });
            }
        }
    }
    f.ignore_unused_indexers();
    f.plan(gguf)
}
