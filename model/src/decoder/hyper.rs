//! Hyper-connections: several residual streams. Each block takes a mixture of them and gives each a share of what it makes of it, by
//! gates that a row's streams say; before that, streams may be mixed with each other.

use super::streams::{cols, Connection, Streams};
use super::{Family, Forward, Stack};
use crate::weights::Weights;
use pumex_plan::{Builder, General, MatPart, Mix, NormKind, StreamGates, Val, Weight};

/// A stack whose layers are connected with several residual streams: what the connections are like.
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
    /// Whether the last norm takes the mean of the streams, instead of a mixture by gates.
    pub mean: bool,
}

impl Stack for Connections {
    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        let of = *self;
        Box::new(Streams::declare(w, f, (of.count, of.mean), |w, name, last| {
            Box::new(Gates::declare(w, f, of, name, last))
        }))
    }
}

/// Weights of one block.
struct Gates {
    of: Connections,
    /// `[gates, streams * dim]`
    weight: MatPart,
    /// `[1 to 3]`
    scale: Weight,
    /// `[gates]`
    base: Weight,
    len: usize,
}

impl Gates {
    /// Declares `NAME_{fn,scale,base}`.
    fn declare(w: &mut Weights<'_>, f: &Family, of: Connections, name: &str, last: bool) -> Gates {
        let (n, all) = (of.count, of.count * f.c.n_embd);
        let (parts, len) = match (last, of.rounds) {
            (true, _) => (1, n),
            (false, 0) => (2, 2 * n),
            (false, _) => (3, (2 + n) * n),
        };
        Gates {
            of,
            weight: w.linear(&format!("{name}_fn"), len, all),
            scale: w.vector(&format!("{name}_scale.weight"), parts),
            base: w.vector(&format!("{name}_base.weight"), len),
            len,
        }
    }
}

impl Connection for Gates {
    fn take(&self, p: &mut Builder, f: &Family, streams: Val) -> (Val, Val) {
        let (dim, n) = (f.c.n_embd, self.of.count);
        let normed = p.normalize(NormKind::Rms, streams, None, None, f.c.eps);
        let gates = p.matmul("gates", normed, vec![self.weight]); // [n, gates]
        let Connections { eps, magnitude, post_eps, rounds, .. } = self.of;
        let (x, scale, base, len) = (p.all(gates), self.scale, self.base, self.len);
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

    fn give(&self, p: &mut Builder, f: &Family, streams: Val, gates: Val, out: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.of.count);
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
