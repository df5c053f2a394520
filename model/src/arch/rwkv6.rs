//! RWKV 6: no attention, rows mixed with the one before and with a state.

use crate::config::Reader;
use crate::decoder::{Decoder, Family, Forward, MixerSpec, Rwkv6, Stack};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Builder, Plan, Val};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = rwkv(gguf, Rc::new(Rwkv6))?.layer_norm();
    f.norms.ffn = "attn_norm_2";
    let every = Reader::new(gguf)?.int("rescale_every_n_layers", Some(0), 0, 1024)?;
    if every > 0 {
        f.stack = Rc::new(HalvingStack(every));
    }
    f.plan(gguf)
}

/// Layers of RWKV: heads of one size, nothing rotated.
///
/// # Errors
/// What is wrong with the file's keys.
pub fn rwkv(gguf: &Gguf, mix: Rc<dyn MixerSpec>) -> Result<Family> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?.no_rope();
    let size = r.int("wkv.head_size", None, 8, 1024)?;
    if !f.c.n_embd.is_multiple_of(size) {
        return Err(r.bad("wkv.head_size", &format!("a divisor of embedding_length {}", f.c.n_embd), size));
    }
    let heads = f.c.n_embd / size;
    for layer in &mut f.layers {
        let kv_heads = if layer.kv_heads == 0 { heads } else { layer.kv_heads };
        if !heads.is_multiple_of(kv_heads) {
            return Err(r.bad("attention.head_count_kv", &format!("a divisor of {heads}"), kv_heads));
        }
        (layer.mix, layer.heads, layer.kv_heads) = (vec![mix.clone()], heads, kv_heads);
        (layer.k_dim, layer.v_dim, layer.ffn.experts) = (size, size, false);
    }
    Ok(f)
}

/// Layers that halve the residual stream each so many, whose weights are made for that.
#[derive(Clone, Copy, Debug)]
struct HalvingStack(usize);

impl Stack for HalvingStack {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(*self)
    }
}

impl Forward for HalvingStack {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let (mut x, mut handed) = (x, None);
        for (i, block) in d.blocks.iter().enumerate() {
            x = block.run(p, f, i, (x, &mut handed));
            x = block.after.run(p, f, i, None, x);
            x = p.scale(x, if (i + 1).is_multiple_of(self.0) { 0.5 } else { 1.0 });
            f.end_layer(p, i, x);
        }
        x
    }
}
