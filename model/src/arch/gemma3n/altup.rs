//! Gemma 3n's AltUp: several residual streams, of which a layer changes one and corrects the others by what that one has become;
//! and LAuReL, a short way of few columns beside attention.

use crate::decoder::{Block, Decoder, Family, Forward, LayerNorm, Stack};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, General, HeadMatMul, Join, MatPart, Val, Weight};

/// A stack of so many residual streams.
#[derive(Debug)]
pub struct AltUpStack(pub usize);

impl Stack for AltUpStack {
    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        Box::new(AltUp::declare(w, f, self.0))
    }
}

/// Weights beside those of the usual layers.
struct AltUp {
    streams: usize,
    /// `[streams - 1, dim, dim]`, into streams and out of them.
    projections: [Weight; 2],
    layers: Vec<Coefficients>,
}

/// Weights of a layer.
struct Coefficients {
    /// `[streams, dim]`
    router: MatPart,
    router_norm: Option<LayerNorm>,
    /// `[streams * streams, streams]`
    predict: Weight,
    /// `[streams, streams]`
    correct: Weight,
    /// `[dim]`
    scale: Weight,
    /// Down and up.
    laurel: [MatPart; 2],
    laurel_norm: Option<LayerNorm>,
}

impl AltUp {
    /// Declares `altup_*` and `blk.N.{altup,laurel}_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, n: usize) -> AltUp {
        let dim = f.c.n_embd;
        let layer = |w: &mut Weights<'_>, i: usize| {
            let name = |part: &str| format!("blk.{i}.{part}");
            let rank = w.dims(&name("laurel_l.weight")).get(1).copied().unwrap_or(64);
            Coefficients {
                router: w.linear(&name("altup_router"), n, dim),
                router_norm: LayerNorm::declare(w, &name("altup_router_norm"), dim),
                predict: w.small(&name("altup_predict_coef"), n * n).weight,
                correct: w.small(&name("altup_correct_coef"), n).weight,
                scale: w.vector(&name("altup_correct_scale.weight"), dim),
                laurel: [w.linear(&name("laurel_l"), rank, dim), w.linear(&name("laurel_r"), dim, rank)],
                laurel_norm: LayerNorm::declare(w, &name("laurel_post_norm"), dim),
            }
        };
        AltUp {
            streams: n,
            projections: ["altup_proj.weight", "altup_unembd_proj.weight"].map(|name| w.heads(name, n - 1, dim, dim)),
            layers: (0..f.c.n_layer).map(|i| layer(w, i)).collect(),
        }
    }

    /// `[n, dim]` → `[n, streams * dim]`: the rows, and what the projections make of them, as long as they are.
    fn spread(&self, p: &mut Builder, dim: usize, x: Val) -> Val {
        let (n, out) = (self.streams, p.parts("streams", self.streams * dim));
        p.copy_into(cols(x, 0, dim), cols(out, 0, dim), 1, dim);
        let others = cols(out, dim, dim);
        let weight = self.projections[0];
        p.general(General::HeadMatMul(HeadMatMul { x: cols(x, 0, 0), weight, heads: n - 1, out: others }));
        let length = length(p, cols(x, 0, dim), 1, dim);
        lengthen(p, others, n - 1, dim, length);
        out
    }

    /// `[n, streams * dim]` → `[n, dim]`: the mean of the first and of what the projections make of the others.
    fn merge(&self, p: &mut Builder, dim: usize, streams: Val) -> Val {
        let n = self.streams;
        let (first, back) = (cols(streams, 0, dim), p.parts("streams", (n - 1) * dim));
        let (weight, out) = (self.projections[1], cols(back, 0, dim));
        p.general(General::HeadMatMul(HeadMatMul { x: cols(streams, dim, dim), weight, heads: n - 1, out }));
        let length = length(p, first, 1, dim);
        lengthen(p, out, n - 1, dim, length);
        let x = p.parts("x", dim);
        let all = p.all(x);
        p.copy_into(first, all, 1, dim);
        for j in 0..n - 1 {
            let from = Arg::Cols(cols(back, j * dim, dim));
            p.map_into(all, (1, dim), (Act::Same, from, 1.0), (Join::Add, Arg::Cols(all)));
        }
        p.scale(x, 1.0 / n as f32)
    }

    /// A layer: `[n, streams * dim]` → the same.
    fn layer(
        &self,
        p: &mut Builder,
        f: &Family,
        (i, b, c): (usize, &Block, &Coefficients),
        inputs: Option<Val>,
        streams: Val,
    ) -> Val {
        let (dim, n) = (f.c.n_embd, self.streams);
        let predicted = self.predict(p, f, c, streams);
        let active = p.parts("x", dim);
        p.copy_into(cols(predicted, 0, dim), p.all(active), 1, dim);
        let h = f.normalize(p, b.attn_norm, active);
        let down = p.matmul("laurel", h, vec![c.laurel[0]]);
        let beside = p.matmul("laurel", down, vec![c.laurel[1]]);
        let beside = f.normalize(p, c.laurel_norm, beside);
        p.add(h, 1.0, beside);
        let mut x = active;
        for (heads, output) in b.mix(p, f, i, (h, &mut None)) {
            let out = p.matmul("out", heads, vec![output]);
            let out = f.normalize(p, b.attn_post_norm, out);
            p.add(active, 1.0, out);
            p.add(beside, 1.0, out);
            x = p.scale(out, std::f32::consts::FRAC_1_SQRT_2);
        }
        let h = f.normalize(p, b.ffn_norm, x);
        if let Some(ffn) = &b.ffn {
            x = ffn.run(p, f, (i, h, None), b.ffn_post_norm, x);
        }
        self.correct(p, f, c, predicted, x);
        let first = p.parts("first", dim);
        let from = Arg::Cols(cols(predicted, 0, dim));
        p.map_into(p.all(first), (1, dim), (Act::Same, from, 1.0), (Join::Mul, Arg::Weight(c.scale)));
        if let Some(added) = b.after.read_inputs(p, f, i, inputs, first) {
            let (others, added) = (cols(predicted, dim, dim), Arg::Cols(cols(added, 0, 0)));
            p.map_into(others, (n - 1, dim), (Act::Same, added, 1.0), (Join::Add, Arg::Cols(others)));
        }
        predicted
    }

    /// How much of each stream a row takes, `[n, streams]`.
    fn share(p: &mut Builder, f: &Family, c: &Coefficients, x: Val) -> Val {
        let h = f.normalize(p, c.router_norm, x);
        let scale = 1.0 / f.c.n_embd as f32;
        let out = p.matmul("altup_router", h, vec![MatPart { scale, ..c.router }]);
        p.act(out, Act::Tanh, 1.0)
    }

    /// Each stream plus a mixture of all, by the first one's shares.
    fn predict(&self, p: &mut Builder, f: &Family, c: &Coefficients, streams: Val) -> Val {
        let (dim, n) = (f.c.n_embd, self.streams);
        let active = p.parts("x", dim);
        p.copy_into(cols(streams, 0, dim), p.all(active), 1, dim);
        let shares = AltUp::share(p, f, c, active);
        let mix = p.parts("mix", n * n); // [n, to, from]
        p.narrow_matmul(shares, c.predict, n, mix);
        let out = p.copy(streams);
        let part = p.parts("part", n * dim);
        let (part, all) = (cols(part, 0, dim), cols(out, 0, dim));
        for from in 0..n {
            let x = Arg::Cols(cols(streams, from * dim, 0));
            p.map_into(part, (n, dim), (Act::Same, x, 1.0), (Join::Mul, Arg::PerGroup(cols(mix, from, n))));
            p.map_into(all, (n, dim), (Act::Same, Arg::Cols(part), 1.0), (Join::Add, Arg::Cols(all)));
        }
        out
    }

    /// Adds to every stream its share of how far `x` `[n, dim]` is from what was predicted.
    fn correct(&self, p: &mut Builder, f: &Family, c: &Coefficients, predicted: Val, x: Val) {
        let (dim, n) = (f.c.n_embd, self.streams);
        let shares = AltUp::share(p, f, c, x);
        let mix = p.parts("mix", n);
        p.narrow_matmul(shares, c.correct, n, mix);
        let all = p.all(mix);
        p.map_into(all, (1, n), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Number(1.0)));
        let off = p.parts("off", dim);
        let before = Arg::Cols(cols(predicted, 0, dim));
        p.map_into(p.all(off), (1, dim), (Act::Same, before, -1.0), (Join::Add, Arg::Cols(p.all(x))));
        let part = p.parts("part", n * dim);
        let (part, all) = (cols(part, 0, dim), cols(predicted, 0, dim));
        let by = Arg::PerGroup(cols(mix, 0, 1));
        p.map_into(part, (n, dim), (Act::Same, Arg::Cols(cols(off, 0, 0)), 1.0), (Join::Mul, by));
        p.map_into(all, (n, dim), (Act::Same, Arg::Cols(part), 1.0), (Join::Add, Arg::Cols(all)));
    }
}

impl Forward for AltUp {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let own = d.inputs.as_ref().map(|inputs| inputs.run(p, f, x)); // [n, layers * per_layer]
        let mut streams = self.spread(p, f.c.n_embd, x);
        for (i, (block, coefficients)) in d.blocks.iter().zip(&self.layers).enumerate() {
            streams = self.layer(p, f, (i, block, coefficients), own, streams);
        }
        self.merge(p, f.c.n_embd, streams)
    }
}

fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

/// Lengths of groups of columns, `[n, groups]`.
fn length(p: &mut Builder, x: Cols, groups: usize, len: usize) -> Val {
    p.dot((groups, len), Arg::Cols(x), Arg::Cols(x), (Act::Sqrt, 1.0))
}

/// Makes groups of columns as long as `to` `[n, 1]`.
fn lengthen(p: &mut Builder, x: Cols, groups: usize, len: usize, to: Val) {
    let by = cols(length(p, x, groups, len), 0, 1);
    p.map_into(by, (groups, 1), (Act::Inverse, Arg::Cols(by), 1.0), (Join::Mul, Arg::Cols(cols(to, 0, 0))));
    p.map_into(x, (groups, len), (Act::Same, Arg::Cols(x), 1.0), (Join::Mul, Arg::PerGroup(by)));
}
