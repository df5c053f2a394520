//! LFM2, dense and with experts: most layers mix by a short convolution, the others by attention.

mod short_conv;

use crate::config::Reader;
use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan};
use short_conv::ShortConv;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.last = Some("token_embd_norm");
    f.mix(|layer| layer.kv_heads == 0, ShortConv(r.int("shortconv.l_cache", None, 2, 64)?));
    let window = f.c.window;
    for layer in &mut f.layers {
        if layer.kv_heads > 0 && window > 0 && r.arch == "lfm2" {
            layer.mask = Mask::Window(window);
        }
        layer.ffn.experts = r.arch == "lfm2moe";
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.normalized = true;
    f.ignored.push("dense_".into());
    f.plan(gguf)
}
