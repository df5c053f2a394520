//! Kimi K3's attention over residual streams: every few layers the stream is set aside and begins anew, and each block takes a
//! mixture of those that were set aside and of the one that goes on.

use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, General, Mix, NormKind, Normalize, Softmax, Val, Weight};

/// A stack whose residual stream begins anew every so many layers.
#[derive(Debug)]
pub struct CheckpointStack(pub usize);

impl Stack for CheckpointStack {
    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        Box::new(Checkpoints::declare(w, f, self.0))
    }
}

/// Weights that say which streams a block takes, `[dim]` each.
struct Checkpoints {
    every: usize,
    /// Before attention, before the feed-forward block.
    layers: Vec<[Weight; 2]>,
    head: Weight,
}

/// Streams that were set aside, side by side.
struct Held {
    all: Val,
    count: usize,
}

impl Checkpoints {
    /// Declares `output_res_score` and `blk.N.{attn,ffn}_res_score`.
    fn declare(w: &mut Weights<'_>, f: &Family, every: usize) -> Checkpoints {
        let dim = f.c.n_embd;
        let layer = |i: usize| ["attn", "ffn"].map(|part| w.vector(&format!("blk.{i}.{part}_res_score.weight"), dim));
        let layers = (0..f.c.n_layer).map(layer).collect();
        Checkpoints { every, layers, head: w.vector("output_res_score.weight", dim) }
    }
}

impl Forward for Checkpoints {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let dim = f.c.n_embd;
        let mut held = Held { all: p.parts("streams", f.c.n_layer.div_ceil(self.every) * dim), count: 0 };
        let mut x = x;
        for (i, (b, [attention, ffn])) in d.blocks.iter().zip(&self.layers).enumerate() {
            let h = mix_held(p, f, &held, *attention, x);
            let anew = i % self.every == 0;
            if anew {
                p.copy_into(p.all(x), Cols { val: held.all, at: held.count * dim, stride: dim }, 1, dim);
                held.count += 1;
            }
            let h = f.normalize(p, b.attn_norm, h);
            for (heads, output) in b.mix(p, f, i, (h, &mut None)) {
                x = match anew {
                    true => p.matmul("out", heads, vec![output]),
                    false => p.matmul_add(heads, output, x),
                };
            }
            let h = mix_held(p, f, &held, *ffn, x);
            let h = f.normalize(p, b.ffn_norm, h);
            if let Some(ffn) = &b.ffn {
                x = ffn.run(p, f, (i, h, None), None, x);
            }
        }
        mix_held(p, f, &held, self.head, x)
    }
}

/// Streams that were set aside and `x` `[n, dim]`, by a softmax of what their norms are times the weights.
fn mix_held(p: &mut Builder, f: &Family, held: &Held, weight: Weight, x: Val) -> Val {
    if held.count == 0 {
        return x;
    }
    let (dim, n) = (f.c.n_embd, held.count);
    let scores = p.parts("scores", n + 1);
    for (val, groups, at) in [(held.all, n, 0), (x, 1, n)] {
        let normed = p.parts("h", groups * dim);
        let [from, out] = [val, normed].map(|val| Cols { val, at: 0, stride: dim });
        let (kind, weight, eps) = (NormKind::Rms, Some(weight), f.c.eps);
        p.general(General::Normalize(Normalize {
            kind,
            x: from,
            groups,
            len: dim,
            weight,
            bias: None,
            gate: None,
            eps,
            out,
        }));
        let sums = p.dot((groups, dim), Arg::Cols(out), Arg::Number(1.0), (Act::Same, 1.0));
        p.copy_into(p.all(sums), Cols { val: scores, at, stride: 1 }, 1, groups);
    }
    p.general(General::Softmax(Softmax { x: p.all(scores), groups: 1, len: n + 1 }));
    let all = p.parts("x", dim);
    let out = p.all(all);
    for (val, from, at) in [(held.all, n, 0), (x, 1, n)] {
        let (x, by) = (Cols { val, at: 0, stride: dim }, Cols { val: scores, at, stride: 1 });
        p.general(General::Mix(Mix { x, by, from, to: 1, len: dim, add: at > 0, out }));
    }
    all
}
