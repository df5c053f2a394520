//! Nanbeige: the layers are gone through several times.

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    let most = (1024 / f.c.n_layer).max(1) as u64;
    f.loops = r.int("num_loops", Some(1), 1, most)?;
    f.loop_norm = !r.flag("skip_loop_final_norm", false)?;
    f.layers = f.layers.repeat(f.loops);
    f.c.n_layer *= f.loops;
    f.plan(gguf)
}
