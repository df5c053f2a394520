//! Chameleon: heads of q and k are normed by mean and deviation, the big one norms what blocks give instead of what they take,
//! and its feed-forward block takes what attention gave alone; ids of pictures are never next.

use crate::config::Reader;
use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Arg, Builder, Cols, Join, NormKind, Plan, Val};
use std::ops::Range;
use std::rc::Rc;

/// Ids of parts of pictures.
const PICTURES: Range<usize> = 4..8196;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    f.attention.qk_norm.kind = Some((NormKind::Layer, 1e-5));
    let swin = r.flag("swin_norm", false)?;
    if swin {
        (f.norms.before, f.norms.after) = (false, Some(["attn_norm", "ffn_norm"]));
    }
    f.stack = Rc::new(TextOnly { swin });
    f.plan(gguf)
}

/// Layers that give no picture.
#[derive(Clone, Copy, Debug)]
struct TextOnly {
    /// Whether feed-forward blocks take what attention gave alone.
    swin: bool,
}

impl Stack for TextOnly {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(*self)
    }
}

impl Forward for TextOnly {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        if !self.swin {
            return d.layers(p, f, x);
        }
        let mut x = x;
        for (i, b) in d.blocks.iter().enumerate() {
            let mut h = x;
            for (out, product) in b.mix(p, f, i, (x, &mut None)) {
                let out = p.matmul("out", out, vec![product]);
                h = f.normalize(p, b.attn_post_norm, out);
                x = p.add(h, 1.0, x);
            }
            if let Some(ffn) = &b.ffn {
                x = ffn.run(p, f, (i, h, None), b.ffn_post_norm, x);
            }
            x = b.after.run(p, f, i, None, x);
            f.end_layer(p, i, x);
        }
        x
    }

    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let logits = d.head.finish(p, f, x);
        let (from, to) = (PICTURES.start, PICTURES.end.min(p.width_of(logits)));
        if from < to {
            let (cols, none) = (Cols { val: logits, at: from, stride: to - from }, Arg::Number(f32::MIN));
            p.map_into(cols, (1, to - from), (Act::Same, none, 1.0), (Join::Add, Arg::Number(0.0)));
        }
        logits
    }
}
