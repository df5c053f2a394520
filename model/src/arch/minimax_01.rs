//! MiniMax 01: lightning attention in all but every eighth layer, experts, and a residual stream that goes on from what norms gave.

mod lightning;

use crate::config::Reader;
use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use lightning::{fades, Lightning};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Builder, Plan, Val, MAX_HEAD_DIM};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    const KEY: &str = "attention.recurrent_layers";
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.stack = Rc::new(NormedResidual(r.float("residual_scale", None, -1e9, 1e9)?));
    f.c.n_ff_exp.fill(f.c.n_ff[0]);
    f.moe.scale = 1.0;
    let n = f.c.n_layer;
    let every = r.int("full_attention_interval", Some(8), 1, 1024)?;
    let usual: Vec<usize> = (0..n).map(|i| usize::from((i + 1) % every != 0)).collect();
    let lightning = match r.is_flags(KEY, n)? {
        Some(flags) => flags,
        None => r.by_layer(KEY, n, Some(&usual), 1)?.into_iter().map(|flag| flag > 0).collect(),
    };
    for (i, (layer, _)) in f.layers.iter_mut().zip(&lightning).enumerate().filter(|(_, (_, flag))| **flag) {
        if layer.heads == 0 {
            return Err(r.bad("attention.head_count", &format!("heads in layer {i}"), 0));
        }
        let (k, v) = (layer.k_dim, layer.v_dim);
        if k != v || k > MAX_HEAD_DIM || !k.is_multiple_of(8) {
            let what = format!("as value_length {v}, a multiple of 8, at most {MAX_HEAD_DIM}");
            return Err(r.bad("attention.key_length", &what, k));
        }
        layer.mix = vec![Rc::new(Lightning)];
    }
    f.numbers = f.layers.iter().enumerate().map(|(i, layer)| fades(layer.heads, i, n)).collect();
    f.plan(gguf)
}

/// Layers whose blocks add to what norms gave them, times this, instead of to what came into the norms.
#[derive(Clone, Copy, Debug)]
struct NormedResidual(f32);

impl Stack for NormedResidual {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(*self)
    }
}

impl Forward for NormedResidual {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let mut x = x;
        for (i, b) in d.blocks.iter().enumerate() {
            let h = f.normalize(p, b.attn_norm, x);
            for (out, product) in b.mix(p, f, i, (h, &mut None)) {
                x = p.act(h, Act::Same, self.0);
                x = f.join(p, out, product, None, x);
            }
            if let Some(ffn) = &b.ffn {
                let h = f.normalize(p, b.ffn_norm, x);
                x = p.act(h, Act::Same, self.0);
                x = ffn.run(p, f, (i, h, None), None, x);
            }
            x = b.after.run(p, f, i, None, x);
            f.end_layer(p, i, x);
        }
        x
    }
}
