//! HRM text: a low and a high stack of layers that are gone through in turn, norms without weights, a gate of what heads give.

mod cycles;

use crate::config::Reader;
use crate::decoder::Family;
use cycles::Cycles;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.bare = true;
    f.embedding.scale = r.factor("embedding_scale", 1.0)?;
    let times = |key: &str| r.int(&format!("hrm.{key}"), None, 1, 1024);
    let cycles = Cycles { layers: times("layers_per_stack")?, high: times("h_cycles")?, low: times("l_cycles")? };
    if cycles.steps() != f.c.n_layer {
        let what = format!("{}, as often as its stacks' layers are gone through", cycles.steps());
        return Err(r.bad("block_count", &what, f.c.n_layer));
    }
    f.layers = (0..f.c.n_layer).map(|i| f.layers[cycles.block(i)].clone()).collect();
    f.stack = Rc::new(cycles);
    f.plan(gguf)
}
