//! LFM2's short convolution: a gate, a convolution over the last rows of each column, another gate.

use super::Family;
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Conv, General, Join, MatPart, Val, Weight};

/// Weights of a layer.
pub struct ShortConv {
    /// `[3 * dim, dim]`: first gate, second gate, columns.
    input: MatPart,
    /// `[dim, k]`
    conv: Weight,
    /// `[dim, dim]`
    pub output: MatPart,
}

impl ShortConv {
    /// Declares `blk.N.shortconv.*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> ShortConv {
        let dim = f.c.n_embd;
        ShortConv {
            input: w.linear(&format!("blk.{i}.shortconv.in_proj"), 3 * dim, dim),
            conv: w.table(&format!("blk.{i}.shortconv.conv.weight"), &[f.recurrent.conv, dim]),
            output: w.linear(&format!("blk.{i}.shortconv.out_proj"), dim, dim),
        }
    }

    /// Normed rows `[n, dim]` → `[n, dim]`.
    pub fn run(&self, p: &mut Builder, f: &Family, layer: usize, h: Val) -> Val {
        let dim = f.c.n_embd;
        let bcx = p.matmul("conv_in", h, vec![self.input]); // [n, 3 * dim]
        let part = |i: usize| Cols { val: bcx, at: i * dim, stride: dim };
        let times = (Join::Mul, Arg::Cols(part(2)));
        p.map_into(part(2), (1, dim), (Act::Same, Arg::Cols(part(0)), 1.0), times);
        let out = p.parts("conv", dim);
        let all = p.all(out);
        let (x, weight) = (part(2), self.conv);
        p.general(General::Conv(Conv {
            x,
            channels: dim,
            weight,
            bias: None,
            silu: false,
            layer,
            at: 0,
            out: all,
            norm: None,
        }));
        p.map_into(all, (1, dim), (Act::Same, Arg::Cols(part(1)), 1.0), (Join::Mul, Arg::Cols(all)));
        out
    }
}
