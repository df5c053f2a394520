//! Hunyuan, dense and with experts: q and k are normed after their rotation; the base grows with `rope.scaling.alpha`.

use crate::config::Reader;
use crate::decoder::{Family, QkPlace};
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.attention.qk_norm.place = QkPlace::After;
    f.read_sections(&r, false)?;
    let alpha = r.factor("rope.scaling.alpha", 0.0)?;
    if alpha > 0.0 {
        let dims = f.c.k_dim as f32;
        f.rotation.tables[0].base *= alpha.powf(dims / (dims - 2.0));
    }
    if f.c.n_expert == 1 {
        f.layers.iter_mut().for_each(|layer| layer.ffn.experts = false);
    }
    f.plan(gguf)
}
