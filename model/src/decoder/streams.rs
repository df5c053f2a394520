//! Several residual streams: each block takes something of all of them, and gives each a share of what it makes of it.

use super::block::Block;
use super::gated_streams::Gated;
use super::head::Head;
use super::hyper::Gates;
use super::Family;
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Join, MatPart, Val};

/// How one block is connected with the streams.
enum Connection {
    /// See [`Gates`].
    Hyper(Gates),
    /// See [`Gated`].
    Gated(Gated),
}

/// Connections of all blocks.
pub struct Streams {
    count: usize,
    /// Before attention, before the feed-forward block.
    layers: Vec<[Connection; 2]>,
    /// Before the last norm; without it, that takes the mean of the streams.
    last: Option<Connection>,
}

/// Columns of a value.
pub fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

impl Streams {
    /// Declares `output_hc_*` and `blk.N.hc_*`, if the family has several streams.
    pub fn declare(w: &mut Weights<'_>, f: &Family) -> Option<Streams> {
        let declare = |w: &mut Weights<'_>, name: &str, last: bool| match (f.connections, f.gated_streams) {
            (Some(of), _) => Some(Connection::Hyper(Gates::declare(w, f, of, name, last))),
            (None, Some(of)) => Some(Connection::Gated(Gated::declare(w, f, of, name, last))),
            (None, None) => None,
        };
        let count = f.connections.map(|c| c.count).or(f.gated_streams.map(|s| s.count))?;
        let layers = (0..f.c.n_layer).map(|i| {
            let [attention, ffn] = ["attn", "ffn"].map(|part| declare(w, &format!("blk.{i}.hc_{part}"), false));
            Some([attention?, ffn?])
        });
        let layers = layers.collect::<Option<Vec<_>>>()?;
        let mean = f.connections.is_some_and(|c| c.mean);
        Some(Streams { count, layers, last: (!mean).then(|| declare(w, "output_hc", true)).flatten() })
    }

    /// Embedded rows `[n, dim]` → the output rows through all layers and the last norm, `[w, dim]`.
    pub fn run(&self, p: &mut Builder, f: &Family, head: &Head, blocks: &[Block], x: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.count);
        let mut streams = p.parts("streams", n * dim);
        p.copy_into(cols(x, 0, 0), cols(streams, 0, dim), n, dim);
        let mut handed = None;
        for (i, (b, [attention, ffn])) in blocks.iter().zip(&self.layers).enumerate() {
            let (h, gates) = attention.taken(p, f, streams);
            let h = f.normed(p, b.attn_norm, h);
            for mixer in &b.mixers {
                let heads = mixer.run(p, f, &f.layers[i], i, (h, &mut handed));
                let out = p.matmul("out", heads, vec![mixer.output()]);
                streams = attention.given(p, f, streams, gates, out);
            }
            let (h, gates) = ffn.taken(p, f, streams);
            let h = f.normed(p, b.ffn_norm, h);
            if let Some(block) = &b.ffn {
                let out = p.zeros(dim);
                let out = block.run(p, f, (i, h, None), None, out);
                streams = ffn.given(p, f, streams, gates, out);
            }
        }
        let x = match &self.last {
            Some(Connection::Gated(gated)) => return gated.last(p, f, streams),
            Some(Connection::Hyper(gates)) => gates.taken(p, f, streams).0,
            None => self.mean(p, dim, streams),
        };
        head.embedding(p, f, None, x)
    }

    /// `[n, streams * dim]` → `[n, dim]`
    fn mean(&self, p: &mut Builder, dim: usize, streams: Val) -> Val {
        let x = p.parts("x", dim);
        p.copy_into(cols(streams, 0, dim), p.all(x), 1, dim);
        for at in 1..self.count {
            let (other, all) = (Arg::Cols(cols(streams, at * dim, dim)), p.all(x));
            p.map_into(all, (1, dim), (Act::Same, other, 1.0), (Join::Add, Arg::Cols(all)));
        }
        p.scale(x, 1.0 / self.count as f32)
    }
}

impl Connection {
    /// What a block takes of streams `[n, streams * dim]`: `[n, dim]`, and its gates.
    fn taken(&self, p: &mut Builder, f: &Family, streams: Val) -> (Val, Val) {
        match self {
            Connection::Hyper(gates) => gates.taken(p, f, streams),
            Connection::Gated(gated) => gated.taken(p, f, streams),
        }
    }

    /// Streams with what a block gives, `[n, dim]`, added by its gates.
    fn given(&self, p: &mut Builder, f: &Family, streams: Val, gates: Val, out: Val) -> Val {
        match self {
            Connection::Hyper(of) => of.given(p, f, streams, gates, out),
            Connection::Gated(of) => of.given(p, f, streams, gates, out),
        }
    }
}

/// A product, times `scale`.
pub fn scaled(part: MatPart, scale: f32) -> MatPart {
    MatPart { scale: part.scale * scale, ..part }
}
