//! LFM2, dense and with experts: most layers mix by a short convolution, the others by attention.

use crate::config::Reader;
use crate::decoder::{Family, Mix};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.output_norm = "token_embd_norm";
    f.recurrent.conv = r.int("shortconv.l_cache", None, 2, 64)?;
    let window = f.c.window;
    for layer in &mut f.layers {
        match layer.kv_heads {
            0 => layer.mix = [Some(Mix::ShortConv), None],
            _ if window > 0 && r.arch == "lfm2" => layer.mask = Mask::Window(window),
            _ => {}
        }
        layer.experts = r.arch == "lfm2moe";
    }
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.moe.normalized = true;
    f.ignored.push("dense_".into());
    f.plan(gguf)
}
