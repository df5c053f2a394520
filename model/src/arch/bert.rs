//! BERT: norms after each block, of the residual stream; embeddings come out. Rows see all rows of their text.

use crate::decoder::{Decoder, Family, Forward, LayerNorm, OutputRows, Stack};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Builder, Plan, Val};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = encoder(gguf)?.no_rope();
    f.activate(Act::Gelu);
    f.plan(gguf)
}

/// Nomic BERT, which rotates, with SwiGLU.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn rotate(gguf: &Gguf) -> Result<Plan> {
    encoder(gguf)?.plan(gguf)
}

/// What encoders share.
///
/// # Errors
/// What is wrong with the file's keys.
pub fn encoder(gguf: &Gguf) -> Result<Family> {
    let mut f = Family::neox(gguf)?.layer_norm();
    f.output.rows = OutputRows::Embeddings;
    (f.norms.before, f.norms.stream, f.norms.last) = (false, true, None);
    f.stack = Rc::new(PostNormStack);
    f.see_all();
    Ok(f)
}

/// Layers that norm the residual stream itself: `norm(x + mix(x))`, then `norm(x + ffn(x))`.
#[derive(Debug)]
struct PostNormStack;

impl Stack for PostNormStack {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(PostNormStack)
    }
}

impl Forward for PostNormStack {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let mut x = x;
        for (i, b) in d.blocks.iter().enumerate() {
            let before = b.attn_end_norm_2.map(|_| p.act(x, Act::Same, 1.0));
            for (out, product) in b.mix(p, f, i, (x, &mut None)) {
                x = f.join(p, out, product, None, x);
            }
            x = f.normalize(p, b.attn_end_norm, x);
            if let Some(before) = before {
                p.add(before, 1.0, x);
                x = f.normalize(p, b.attn_end_norm_2, x);
            }
            if let Some(ffn) = &b.ffn {
                x = ffn.run(p, f, (i, x, None), None, x);
            }
            // Behind the last layer, the output rows alone are normed.
            x = f.normalize(p, b.end_norm.filter(|_| i + 1 < d.blocks.len()), x);
            x = b.after.run(p, f, i, None, x);
            f.end_layer(p, i, x);
        }
        x
    }

    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let norm = d.blocks.last().and_then(|b| b.end_norm).unwrap_or(LayerNorm::BARE);
        f.normalize_output(p, norm, x)
    }
}
