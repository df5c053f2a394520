//! Qwen 4's streams: each block takes the mean of all, of which every column is normed and gated; every stream gets what the block
//! gives times a factor of its own.

use crate::decoder::streams::{cols, scale_part, Connection, Streams};
use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, General, Join, MatPart, Mix, NormKind, Normalize, Val, Weight};

/// A stack whose layers are connected with gated streams.
#[derive(Clone, Copy, Debug)]
pub struct GatedStreams {
    /// Streams.
    pub count: usize,
    /// Columns between both products that give gates.
    pub rank: usize,
}

impl Stack for GatedStreams {
    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        let of = *self;
        Box::new(Streams::declare(w, f, (of.count, false), |w, name, last| {
            Box::new(Gated::declare(w, f, of, name, last))
        }))
    }
}

/// Weights of one block.
struct Gated {
    count: usize,
    /// `[streams * dim]`
    norm: Weight,
    /// `[rank, streams * dim]`
    down: MatPart,
    /// `[streams * dim, rank]`
    up: MatPart,
    /// `[streams, streams * dim]`; none after the last layer.
    shares: Option<MatPart>,
}

impl Gated {
    /// Declares `NAME_{norm,down,up,inject}`.
    fn declare(w: &mut Weights<'_>, f: &Family, of: GatedStreams, name: &str, last: bool) -> Gated {
        let GatedStreams { count, rank } = of;
        let all = count * f.c.n_embd;
        let norm = format!("{name}_norm.weight");
        let dims = if w.dims(&norm).len() > 1 { vec![f.c.n_embd, count] } else { vec![all] };
        Gated {
            count,
            norm: w.table(&norm, &dims),
            down: w.linear(&format!("{name}_down"), rank, all),
            up: w.linear(&format!("{name}_up"), all, rank),
            shares: (!last).then(|| w.linear(&format!("{name}_inject"), count, all)),
        }
    }

    /// Every stream by itself through a norm, into `out`.
    fn normalize_each(&self, p: &mut Builder, f: &Family, streams: Val, out: Val) {
        let (x, out) = (cols(streams, 0, f.c.n_embd), cols(out, 0, f.c.n_embd));
        let (kind, weight, len, eps) = (NormKind::Rms, Some(self.norm), f.c.n_embd, f.c.eps);
        let groups = self.count;
        p.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias: None, gate: None, eps, out }));
    }

    /// The mean of normed streams, gated, into `out` `[n, dim]`.
    fn average(&self, p: &mut Builder, f: &Family, normed: Val, out: Val) -> Val {
        let (dim, part) = (f.c.n_embd, 1.0 / self.count as f32);
        let low = p.matmul("gate_low", normed, vec![scale_part(self.down, part)]); // [n, rank]
        let all = p.all(low);
        p.map_into(all, (1, all.stride), (Act::Silu, Arg::Cols(all), 1.0), (Join::Add, Arg::Number(0.0)));
        let gates = p.matmul("gates", low, vec![self.up]); // [n, streams * dim]
        let (by, all) = (Arg::Cols(p.all(gates)), p.all(normed));
        p.map_into(all, (1, all.stride), (Act::Sigmoid, by, part), (Join::Mul, Arg::Cols(all)));
        let to = p.all(out);
        p.copy_into(cols(normed, 0, dim), to, 1, dim);
        for at in 1..self.count {
            let other = Arg::Cols(cols(normed, at * dim, dim));
            p.map_into(to, (1, dim), (Act::Same, other, 1.0), (Join::Add, Arg::Cols(to)));
        }
        out
    }
}

impl Connection for Gated {
    fn take(&self, p: &mut Builder, f: &Family, streams: Val) -> (Val, Val) {
        let normed = p.parts("streams_h", self.count * f.c.n_embd);
        self.normalize_each(p, f, streams, normed);
        let shares = match self.shares {
            Some(shares) => {
                let shares = p.matmul("shares", normed, vec![scale_part(shares, 1.0 / self.count as f32)]); // [n, streams]
                let all = p.all(shares);
                let twice = (Act::Sigmoid, Arg::Cols(all), 2.0);
                p.map_into(all, (1, self.count), twice, (Join::Add, Arg::Number(0.0)));
                shares
            }
            None => normed,
        };
        let x = p.parts("x", f.c.n_embd);
        (self.average(p, f, normed, x), shares)
    }

    /// Streams plus what a block gives, `[n, dim]`, times each one's factor.
    fn give(&self, p: &mut Builder, f: &Family, streams: Val, shares: Val, out: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.count);
        let (x, by, out) = (cols(out, 0, 0), cols(shares, 0, 0), cols(streams, 0, dim));
        p.general(General::Mix(Mix { x, by, from: 1, to: n, len: dim, add: true, out }));
        streams
    }

    /// The head's product takes the streams' mean as it is, without a norm.
    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, streams: Val) -> Val {
        let normed = p.outputs("streams_h", self.count * f.c.n_embd);
        self.normalize_each(p, f, streams, normed);
        let x = p.outputs("h_out", f.c.n_embd);
        let h = self.average(p, f, normed, x);
        d.head.multiply(p, f, h)
    }
}
