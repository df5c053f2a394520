//! LFM2's short convolution: a gate, a convolution over the last rows of each column, another gate.

use crate::decoder::{Family, LayerSpec, Mixer, MixerSpec, Recurrent, Rows};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Conv, General, Join, LayerState, MatPart, Val, Weight};

/// A gated convolution over so many rows.
#[derive(Debug)]
pub struct ShortConv(pub usize);

impl MixerSpec for ShortConv {
    fn state(&self, f: &Family, _l: &LayerSpec) -> LayerState {
        Recurrent { conv: self.0, ..Recurrent::default() }.keep(f.c.n_embd, 0, 0)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(ShortConvWeights::declare(w, f, i, self.0))
    }
}

/// Weights of a layer.
struct ShortConvWeights {
    /// `[3 * dim, dim]`: first gate, second gate, columns.
    input: MatPart,
    /// `[dim, k]`
    conv: Weight,
    /// `[dim, dim]`
    output: MatPart,
}

impl ShortConvWeights {
    /// Declares `blk.N.shortconv.*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, rows: usize) -> ShortConvWeights {
        let dim = f.c.n_embd;
        ShortConvWeights {
            input: w.linear(&format!("blk.{i}.shortconv.in_proj"), 3 * dim, dim),
            conv: w.table(&format!("blk.{i}.shortconv.conv.weight"), &[rows, dim]),
            output: w.linear(&format!("blk.{i}.shortconv.out_proj"), dim, dim),
        }
    }
}

impl Mixer for ShortConvWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, dim]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, state: layer, .. }: Rows<'_>) -> Val {
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
