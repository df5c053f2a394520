//! Qwen 4, as it is tried out: layers as in Qwen 3.5 with experts, between several residual streams that are gated. An indexer chooses
//! blocks of positions; all are seen, in contexts where each would be chosen. Embeddings of several ids together are not there.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, GatedStreams};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    if r.has("ple.layers") {
        return Err(r.bad("ple.layers", "no embeddings of several ids together, which are not supported", "the key"));
    }
    f.read_sections(&r, true)?;
    super::qwen3next::delta_layers(&mut f, &r)?;
    let s = &mut f.recurrent;
    if s.inner != s.heads * s.state {
        let what = format!("time_step_rank times state_size, {}", s.heads * s.state);
        return Err(r.bad("ssm.inner_size", &what, s.inner));
    }
    (s.tiled, s.sigmoid_gate) = (true, true);
    f.pre_norms = false;
    f.gated_streams = Some(GatedStreams {
        count: r.int("hyper_connection.count", None, 2, 64)?,
        rank: r.int("hyper_connection.low_rank", None, 1, 1 << 16)?,
    });
    f.experts_share_width(&r)?;
    let every = r.by_layer("attention.compress_ratios", f.c.n_layer, Some(&vec![0; f.c.n_layer]), 1 << 16)?;
    match every.iter().any(|rows| *rows > 0) {
        true => f.see_chosen(&r)?,
        false => f.ignored.extend((0..f.c.n_layer).map(|i| format!("blk.{i}.indexer"))),
    }
    f.plan(gguf)
}
