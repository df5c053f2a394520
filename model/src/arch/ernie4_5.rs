//! ERNIE 4.5, dense and with experts, which are chosen by a softmax and a bias.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.dense_first(&r)?;
    if r.arch == "ernie4_5" {
        f.layers.iter_mut().for_each(|layer| layer.ffn.experts = false);
    }
    f.plan(gguf)
}
