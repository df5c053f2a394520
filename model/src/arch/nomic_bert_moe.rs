//! Nomic BERT with experts: as BERT, with rotation; every so many layers experts without a gate, weighted as their softmax is.

use crate::config::Reader;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = super::bert::encoder(gguf)?;
    let every = r.int("moe_every_n_layers", Some(0), 0, 1024)?;
    f.activate(Act::Gelu);
    (f.moe.act, f.moe.normalized) = (Act::Gelu, false);
    f.c.n_ff_exp.fill(f.c.n_ff[0]);
    for (i, layer) in f.layers.iter_mut().enumerate() {
        layer.ffn.experts &= every > 0 && i % every == 1;
    }
    f.plan(gguf)
}
