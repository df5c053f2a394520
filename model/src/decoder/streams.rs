//! Several residual streams: each block takes something of all of them, and gives each a share of what it makes of it.

use super::{Decoder, Family, Forward};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Join, MatPart, Val};

/// How one block is connected with the streams.
pub trait Connection {
    /// What a block takes of streams `[n, streams * dim]`: `[n, dim]`, and the gates by which it gives.
    fn take(&self, p: &mut Builder, f: &Family, streams: Val) -> (Val, Val);

    /// Streams with what a block gives, `[n, dim]`, added by its gates.
    fn give(&self, p: &mut Builder, f: &Family, streams: Val, gates: Val, out: Val) -> Val;

    /// Streams behind the last layer → logits of the output rows.
    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, streams: Val) -> Val {
        let x = self.take(p, f, streams).0;
        d.head.finish(p, f, x)
    }
}

/// Connections of all blocks.
pub struct Streams {
    count: usize,
    /// Before attention, before the feed-forward block.
    layers: Vec<[Box<dyn Connection>; 2]>,
    /// Before the last norm; without it, that takes the mean of the streams.
    last: Option<Box<dyn Connection>>,
}

/// Columns of a value.
pub fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

impl Streams {
    /// Declares `blk.N.hc_*` and, unless the last norm takes the mean, `output_hc_*`: `declare` gets a name, and whether it is the
    /// last one's.
    pub fn declare<'a>(
        w: &mut Weights<'a>,
        f: &Family,
        (count, mean): (usize, bool),
        declare: impl Fn(&mut Weights<'a>, &str, bool) -> Box<dyn Connection>,
    ) -> Streams {
        let layer = |i: usize| ["attn", "ffn"].map(|part| declare(w, &format!("blk.{i}.hc_{part}"), false));
        let layers = (0..f.c.n_layer).map(layer).collect();
        Streams { count, layers, last: (!mean).then(|| declare(w, "output_hc", true)) }
    }

    /// `[n, streams * dim]` → `[n, dim]`
    fn average(&self, p: &mut Builder, dim: usize, streams: Val) -> Val {
        let x = p.parts("x", dim);
        p.copy_into(cols(streams, 0, dim), p.all(x), 1, dim);
        for at in 1..self.count {
            let (other, all) = (Arg::Cols(cols(streams, at * dim, dim)), p.all(x));
            p.map_into(all, (1, dim), (Act::Same, other, 1.0), (Join::Add, Arg::Cols(all)));
        }
        p.scale(x, 1.0 / self.count as f32)
    }
}

impl Forward for Streams {
    /// Embedded rows `[n, dim]` → streams `[n, streams * dim]`.
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.count);
        let mut streams = p.parts("streams", n * dim);
        p.copy_into(cols(x, 0, 0), cols(streams, 0, dim), n, dim);
        let mut handed = None;
        for (i, (b, [attention, ffn])) in d.blocks.iter().zip(&self.layers).enumerate() {
            let (h, gates) = attention.take(p, f, streams);
            let h = f.normalize(p, b.attn_norm, h);
            for (heads, output) in b.mix(p, f, i, (h, &mut handed)) {
                let out = p.matmul("out", heads, vec![output]);
                streams = attention.give(p, f, streams, gates, out);
            }
            let (h, gates) = ffn.take(p, f, streams);
            let h = f.normalize(p, b.ffn_norm, h);
            if let Some(block) = &b.ffn {
                let out = p.zeros(dim);
                let out = block.run(p, f, (i, h, None), None, out);
                streams = ffn.give(p, f, streams, gates, out);
            }
        }
        streams
    }

    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, streams: Val) -> Val {
        match &self.last {
            Some(last) => last.finish(p, f, d, streams),
            None => {
                let x = self.average(p, f.c.n_embd, streams);
                d.head.finish(p, f, x)
            }
        }
    }
}

/// A product, times `scale`.
pub fn scale_part(part: MatPart, scale: f32) -> MatPart {
    MatPart { scale: part.scale * scale, ..part }
}
