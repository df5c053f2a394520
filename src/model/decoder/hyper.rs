//! Hyper-connections: several residual streams. Each block takes a mixture of them and gives each a share of what it makes of it, by
//! gates that a row's streams say; before that, streams may be mixed with each other.

use super::block::Block;
use super::Family;
use crate::model::weights::Weights;
use crate::plan::{Builder, Cols, General, MatPart, Mix, NormKind, StreamGates, Val, Weight};

/// What connections are like.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Streams.
    pub count: usize,
    /// Added to how much a block takes.
    pub eps: f32,
    /// Most that a stream takes of what a block gives.
    pub magnitude: f32,
    /// Added to that.
    pub post_eps: f32,
    /// How often the matrix that mixes streams is balanced; 0 if they are not mixed.
    pub rounds: usize,
}

/// Weights of all connections.
pub struct Hyper {
    of: Connections,
    layers: Vec<[Gates; 2]>,
    head: Gates,
}

/// Of one block.
struct Gates {
    /// `[gates, streams * dim]`
    weight: MatPart,
    /// `[1 to 3]`
    scale: Weight,
    /// `[gates]`
    base: Weight,
    len: usize,
}

impl Gates {
    fn declare(w: &mut Weights<'_>, name: &str, (parts, len): (usize, usize), cols: usize) -> Gates {
        Gates {
            weight: w.linear_plain(&format!("{name}_fn"), len, cols),
            scale: w.vector(&format!("{name}_scale.weight"), parts),
            base: w.vector(&format!("{name}_base.weight"), len),
            len,
        }
    }
}

fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

impl Hyper {
    /// Declares `output_hc_*` and `blk.N.hc_*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, of: Connections) -> Hyper {
        let (n, all) = (of.count, of.count * f.c.n_embd);
        let shape = if of.rounds > 0 { (3, (2 + n) * n) } else { (2, 2 * n) };
        let layer = |i: usize| ["attn", "ffn"].map(|part| Gates::declare(w, &format!("blk.{i}.hc_{part}"), shape, all));
        let layers = (0..f.c.n_layer).map(layer).collect();
        Hyper { of, layers, head: Gates::declare(w, "output_hc", (1, n), all) }
    }

    /// Embedded rows `[n, dim]` → what comes before the last norm, through all layers.
    pub fn run(&self, p: &mut Builder, f: &Family, blocks: &[Block], x: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.of.count);
        let mut streams = p.parts("streams", n * dim);
        p.copy_into(cols(x, 0, 0), cols(streams, 0, dim), n, dim);
        for (i, (b, [attention, ffn])) in blocks.iter().zip(&self.layers).enumerate() {
            let (h, gates) = self.taken(p, f, attention, streams);
            let h = f.normed(p, b.attn_norm, h);
            for mixer in &b.mixers {
                let heads = mixer.run(p, f, &f.layers[i], i, (h, &mut None));
                let out = p.matmul("out", heads, vec![mixer.output()]);
                streams = self.given(p, dim, streams, gates, out);
            }
            let (h, gates) = self.taken(p, f, ffn, streams);
            let h = f.normed(p, b.ffn_norm, h);
            if let Some(ffn) = &b.ffn {
                let out = p.zeros(dim);
                let out = ffn.run(p, f, (i, h, None), None, out);
                streams = self.given(p, dim, streams, gates, out);
            }
        }
        self.taken(p, f, &self.head, streams).0
    }

    /// What a block takes of streams `[n, streams * dim]`: `[n, dim]`, and its gates.
    fn taken(&self, p: &mut Builder, f: &Family, g: &Gates, streams: Val) -> (Val, Val) {
        let (dim, n) = (f.c.n_embd, self.of.count);
        let normed = p.normalize(NormKind::Rms, streams, None, None, f.c.eps);
        let gates = p.matmul("gates", normed, vec![g.weight]); // [n, gates]
        let Connections { eps, magnitude, post_eps, rounds, .. } = self.of;
        let (x, scale, base, len) = (p.all(gates), g.scale, g.base, g.len);
        p.general(General::StreamGates(StreamGates {
            x,
            count: n,
            scale,
            base,
            len,
            eps,
            magnitude,
            post_eps,
            rounds,
        }));
        let h = p.parts("x", dim);
        let (x, by, out) = (cols(streams, 0, dim), cols(gates, 0, 1), cols(h, 0, dim));
        p.general(General::Mix(Mix { x, by, from: n, to: 1, len: dim, add: false, out }));
        (h, gates)
    }

    /// Streams with what a block gives, `[n, dim]`, added by its gates.
    fn given(&self, p: &mut Builder, dim: usize, streams: Val, gates: Val, out: Val) -> Val {
        let n = self.of.count;
        let mixed = match self.of.rounds {
            0 => streams,
            _ => {
                let mixed = p.parts("streams", n * dim);
                let (x, by, out) = (cols(streams, 0, dim), cols(gates, 2 * n, n), cols(mixed, 0, dim));
                p.general(General::Mix(Mix { x, by, from: n, to: n, len: dim, add: false, out }));
                mixed
            }
        };
        let (x, by, out) = (cols(out, 0, 0), cols(gates, n, 0), cols(mixed, 0, dim));
        p.general(General::Mix(Mix { x, by, from: 1, to: n, len: dim, add: true, out }));
        mixed
    }
}
