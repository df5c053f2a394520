//! RWKV 6 and 7: rows mixed with the one before, then a state per head that fades column by column.

use super::channel_mix::{interpolate, subtract_before};
use super::{Family, LayerNorm, LayerSpec, Mixer, MixerSpec, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Cols, General, HeadMatMul, Join, LayerState, MatPart, NormKind, Normalize, RecurrentSpec, Scan,
    ScanKind, Val, Weight,
};

/// Epsilon of the norm of what heads give.
const HEAD_EPS: f32 = 64e-5;
/// Factor of RWKV 7's logarithm of the decay: `-e^-0.5`.
const MOST_DECAY: f32 = -0.606_531;

/// RWKV 6.
#[derive(Debug)]
pub struct Rwkv6;

/// RWKV 7.
#[derive(Debug)]
pub struct Rwkv7;

impl MixerSpec for Rwkv6 {
    fn state(&self, f: &Family, l: &LayerSpec) -> LayerState {
        keep(f, l)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(TimeMix6::declare(w, f, i))
    }
}

impl MixerSpec for Rwkv7 {
    fn state(&self, f: &Family, l: &LayerSpec) -> LayerState {
        keep(f, l)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(TimeMix7::declare(w, f, i))
    }
}

/// The last row as both blocks took it, and a state per head.
fn keep(f: &Family, l: &LayerSpec) -> LayerState {
    let (dim, hd) = (f.c.n_embd, l.k_dim);
    let state = ("state", vec![dim / hd.max(1), hd, hd]);
    LayerState::Recurrent(RecurrentSpec { parts: vec![("shifts", vec![2, dim]), state] })
}

/// Weights of what RWKV 6 and 7 share.
struct Common {
    /// Products that give receptance, keys and values, `[dim or kv, dim]`.
    rkv: [MatPart; 3],
    /// Norm of what heads give.
    norm: Option<LayerNorm>,
    /// `[dim, dim]`
    output: MatPart,
}

impl Common {
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Common {
        let (dim, kv) = (f.c.n_embd, f.layers[i].kv_heads * f.layers[i].k_dim);
        let name = |part: &str| format!("blk.{i}.time_mix_{part}");
        Common {
            rkv: [("receptance", dim), ("key", kv), ("value", kv)].map(|(n, m)| w.linear(&name(n), m, dim)),
            norm: LayerNorm::declare(w, &name("ln"), dim),
            output: w.linear(&name("output"), dim, dim),
        }
    }

    /// Heads of `y` through their norm.
    fn normalize_heads(&self, p: &mut Builder, y: Cols, heads: usize) {
        if let Some(LayerNorm { weight, bias }) = self.norm {
            let (kind, groups, len, eps) = (NormKind::Layer, heads, y.stride, HEAD_EPS);
            p.general(General::Normalize(Normalize { kind, x: y, groups, len, weight, bias, gate: None, eps, out: y }));
        }
    }
}

/// Weights of RWKV 6's time mixing, and of its form in Qwen 2's place.
struct TimeMix6 {
    common: Common,
    lerp_x: Weight,
    /// How much of the row before comes into decay, keys, values, receptance and gate: `[5, dim]`, or five of `[dim]`.
    lerps: Vec<Weight>,
    /// `[5 * extra, dim]` and `[5, dim, extra]`
    mix: (MatPart, Weight),
    /// `[heads, k]`; without it the state is read after it is written.
    first: Option<Weight>,
    decay: Weight,
    /// Down and up.
    decay_by: [MatPart; 2],
    gate: MatPart,
}

impl TimeMix6 {
    /// Declares `blk.N.time_mix_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> TimeMix6 {
        let (dim, hd) = (f.c.n_embd, f.layers[i].k_dim);
        let name = |part: &str| format!("blk.{i}.time_mix_{part}");
        let weight = |part: &str| format!("blk.{i}.time_mix_{part}.weight");
        let lerp = |w: &mut Weights<'_>, part: &str| {
            let dims = w.dims(&weight(part));
            w.shaped(&weight(part), &dims, dim)
        };
        let extra = w.dims(&weight("w2")).first().copied().unwrap_or(32);
        let fused = w.has_rather(&weight("lerp_fused"), &weight("lerp_w"));
        let decay_rows = w.dims(&weight("decay_w1")).get(1).copied().unwrap_or(64);
        TimeMix6 {
            common: Common::declare(w, f, i),
            lerp_x: lerp(w, "lerp_x"),
            lerps: match fused {
                true => vec![lerp(w, "lerp_fused")],
                false => ["w", "k", "v", "r", "g"].map(|part| lerp(w, &format!("lerp_{part}"))).to_vec(),
            },
            mix: (w.linear(&name("w1"), 5 * extra, dim), w.floats(&weight("w2"), &[extra, dim, 5])),
            first: w.opt_table(&weight("first"), &[hd, dim / hd.max(1)]),
            decay: lerp(w, "decay"),
            decay_by: [w.linear(&name("decay_w1"), decay_rows, dim), w.small(&name("decay_w2"), dim)],
            gate: w.linear(&name("gate"), dim, dim),
        }
    }
}

impl Mixer for TimeMix6 {
    fn output(&self) -> MatPart {
        self.common.output
    }

    /// Normed rows `[n, dim]` → `[n, dim]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, layer: l, state: layer, .. }: Rows<'_>) -> Val {
        let dim = f.c.n_embd;
        let (hd, heads) = (l.k_dim, dim / l.k_dim);
        let before = subtract_before(p, (layer, 0), h); // [n, dim]: the row before, less the row
        let mixed = interpolate(p, h, before, self.lerp_x);
        let low = p.matmul("mix", mixed, vec![self.mix.0]);
        let low = p.act(low, Act::Tanh, 1.0); // [n, 5 * extra]
        let all = p.parts("mixed", 5 * dim);
        let (extra, each) = (p.width_of(low) / 5, cols(all, 0, dim));
        let (x, weight) = (cols(low, 0, extra), self.mix.1);
        p.general(General::HeadMatMul(HeadMatMul { x, weight, heads: 5, out: each }));
        for (j, lerp) in self.lerps.iter().enumerate() {
            let (part, groups) = (cols(all, j * dim, dim), 5 / self.lerps.len());
            p.map_into(part, (groups, dim), (Act::Same, Arg::Cols(part), 1.0), (Join::Add, Arg::Weight(*lerp)));
        }
        p.map_into(each, (5, dim), (Act::Same, Arg::Cols(each), 1.0), (Join::Mul, Arg::Cols(cols(before, 0, 0))));
        let part = |p: &mut Builder, j: usize| {
            let x = p.parts("x", dim);
            let from = Arg::Cols(cols(all, j * dim, dim));
            p.map_into(p.all(x), (1, dim), (Act::Same, from, 1.0), (Join::Add, Arg::Cols(p.all(h))));
            x
        };
        let [xw, xk, xv, xr, xg] = [0, 1, 2, 3, 4].map(|j| part(p, j));
        let [r, k, v] = [xr, xk, xv]
            .iter()
            .zip(self.common.rkv)
            .map(|(x, part)| p.matmul("rkv", *x, vec![part]))
            .collect::<Vec<_>>()[..]
        else {
            return h;
        };
        let gate = p.matmul("gate", xg, vec![self.gate]);
        let down = p.matmul("decay", xw, vec![self.decay_by[0]]);
        let down = p.act(down, Act::Tanh, 1.0);
        let decay = multiply_small(p, down, self.decay_by[1]);
        let w = p.all(decay);
        p.map_into(w, (1, dim), (Act::Same, Arg::Cols(w), 1.0), (Join::Add, Arg::Weight(self.decay)));
        p.map_into(w, (1, dim), (Act::Exp, Arg::Cols(w), -1.0), (Join::Add, Arg::Number(0.0)));
        p.map_into(w, (1, dim), (Act::Exp, Arg::Cols(w), 1.0), (Join::Add, Arg::Number(0.0)));
        let [k, v] = [k, v].map(|x| repeat(p, x, l.kv_heads, heads, hd));
        if self.first.is_none() {
            let rest = p.act(decay, Act::Same, -1.0);
            let (all, k) = (p.all(rest), p.all(k));
            p.map_into(all, (1, dim), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Number(1.0)));
            p.map_into(k, (1, dim), (Act::Same, Arg::Cols(k), 1.0), (Join::Mul, Arg::Cols(all)));
        }
        let y = p.parts("wkv", dim);
        let out = cols(y, 0, hd);
        let (kind, scale) = match self.first {
            Some(_) => (ScanKind::Wkv6, 1.0),
            None => (ScanKind::Gla, 1.0 / (hd as f32).sqrt()),
        };
        let (factor, at) = (self.first, 2 * dim);
        let scan = scan(kind, (heads, hd), [r, k, v, decay], (layer, at), y);
        p.general(General::Scan(Scan { factor, scale, ..scan }));
        self.common.normalize_heads(p, out, heads);
        let act = if self.first.is_some() { Act::Silu } else { Act::Sigmoid };
        let all = p.all(y);
        p.map_into(all, (1, dim), (act, Arg::Cols(p.all(gate)), 1.0), (Join::Mul, Arg::Cols(all)));
        y
    }
}

/// Weights of RWKV 7's time mixing.
struct TimeMix7 {
    common: Common,
    /// How much of the row before comes into receptance, decay, keys, values, learning rate and gate, if there is one:
    /// `[5 or 6, dim]`.
    lerps: Weight,
    parts: usize,
    /// Biases `[dim]`, and products down and up, of the decay, the learning rate and the first layer's values.
    decay: (Weight, [MatPart; 2]),
    rate: (Weight, [MatPart; 2]),
    value: (Weight, [MatPart; 2]),
    /// Down and up.
    gate: Option<[MatPart; 2]>,
    /// `[dim]`
    k_k: Weight,
    k_a: Weight,
    /// `[heads, k]`
    r_k: Weight,
}

impl TimeMix7 {
    /// Declares `blk.N.time_mix_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> TimeMix7 {
        let (dim, hd) = (f.c.n_embd, f.layers[i].k_dim);
        let name = |part: &str| format!("blk.{i}.time_mix_{part}");
        let weight = |part: &str| format!("blk.{i}.time_mix_{part}.weight");
        let pair = |w: &mut Weights<'_>, part: &str| {
            let rows = w.dims(&weight(&format!("{part}1"))).get(1).copied().unwrap_or(32);
            [w.linear(&name(&format!("{part}1")), rows, dim), w.small(&name(&format!("{part}2")), dim)]
        };
        let with = |w: &mut Weights<'_>, part: &str| {
            let of = &weight(&format!("{part}0"));
            let dims = w.dims(of);
            (w.shaped(of, &dims, dim), pair(w, part))
        };
        let dims = w.dims(&weight("lerp_fused"));
        let (gated, parts) = (w.has(&weight("g1")), dims.iter().skip(1).product::<usize>());
        if !dims.is_empty() && parts != 5 + usize::from(gated) {
            let rows = 5 + usize::from(gated);
            w.problem("wrong_shape", format!("{}: expected {rows} rows, found {dims:?}", weight("lerp_fused")));
        }
        let vector = |w: &mut Weights<'_>, part: &str| {
            let dims = w.dims(&weight(part));
            w.shaped(&weight(part), &dims, dim)
        };
        TimeMix7 {
            common: Common::declare(w, f, i),
            lerps: w.shaped(&weight("lerp_fused"), &dims, dim),
            parts: 5 + usize::from(gated),
            decay: with(w, "w"),
            rate: with(w, "a"),
            value: with(w, "v"),
            gate: gated.then(|| pair(w, "g")),
            k_k: vector(w, "k_k"),
            k_a: vector(w, "k_a"),
            r_k: {
                let dims = w.dims(&weight("r_k"));
                w.shaped(&weight("r_k"), &dims, hd)
            },
        }
    }
}

impl Mixer for TimeMix7 {
    fn output(&self) -> MatPart {
        self.common.output
    }

    /// Normed rows `[n, dim]` → `[n, dim]`. What is handed on are the values of the first layer that runs.
    fn run(&self, p: &mut Builder, f: &Family, rows: Rows<'_>) -> Val {
        let Rows { h, layer: l, state: layer, handed: first } = rows;
        let (dim, hd) = (f.c.n_embd, l.k_dim);
        let heads = dim / hd;
        let before = subtract_before(p, (layer, 0), h);
        let all = p.parts("mixed", self.parts * dim);
        let each = cols(all, 0, dim);
        let from = Arg::Cols(cols(before, 0, 0));
        p.map_into(each, (self.parts, dim), (Act::Same, from, 1.0), (Join::Mul, Arg::Weight(self.lerps)));
        let part = |p: &mut Builder, j: usize| {
            let x = p.parts("x", dim);
            let from = Arg::Cols(cols(all, j * dim, dim));
            p.map_into(p.all(x), (1, dim), (Act::Same, from, 1.0), (Join::Add, Arg::Cols(p.all(h))));
            x
        };
        let [xr, xw, xk, xv, xa] = [0, 1, 2, 3, 4].map(|j| part(p, j));
        let [r_part, k_part, v_part] = self.common.rkv;
        let r = p.matmul("receptance", xr, vec![r_part]);
        let k = p.matmul("key", xk, vec![k_part]);
        let v = p.matmul("value", xv, vec![v_part]);
        let low = |p: &mut Builder, x: Val, (bias, [down, up]): &(Weight, [MatPart; 2]), act: Act| {
            let down = p.matmul("down", x, vec![*down]);
            let down = if act == Act::Same { down } else { p.act(down, act, 1.0) };
            let out = multiply_small(p, down, *up);
            let all = p.all(out);
            p.map_into(all, (1, dim), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Weight(*bias)));
            out
        };
        let decay = low(p, xw, &self.decay, Act::Tanh);
        let w = p.all(decay);
        p.map_into(w, (1, dim), (Act::Sigmoid, Arg::Cols(w), MOST_DECAY), (Join::Add, Arg::Number(0.0)));
        p.map_into(w, (1, dim), (Act::Exp, Arg::Cols(w), 1.0), (Join::Add, Arg::Number(0.0)));
        match *first {
            None => *first = Some(v),
            Some(first) => {
                let by = low(p, xv, &self.value, Act::Same);
                let by = p.act(by, Act::Sigmoid, 1.0);
                let off = p.parts("off", dim);
                let (o, all) = (p.all(off), p.all(v));
                p.map_into(o, (1, dim), (Act::Same, Arg::Cols(all), -1.0), (Join::Add, Arg::Cols(p.all(first))));
                p.map_into(o, (1, dim), (Act::Same, Arg::Cols(o), 1.0), (Join::Mul, Arg::Cols(p.all(by))));
                p.add(off, 1.0, v);
            }
        }
        let rate = low(p, xa, &self.rate, Act::Same);
        let rate = p.act(rate, Act::Sigmoid, 1.0);
        // The direction of keys, of length one per head.
        let unit = p.parts("unit", dim);
        let (u, by_head) = (p.all(unit), cols(unit, 0, hd));
        p.map_into(u, (1, dim), (Act::Same, Arg::Cols(p.all(k)), 1.0), (Join::Mul, Arg::Weight(self.k_k)));
        let (kind, eps) = (NormKind::L2, 1e-12);
        let norm = Normalize {
            kind,
            x: by_head,
            groups: heads,
            len: hd,
            weight: None,
            bias: None,
            gate: None,
            eps,
            out: by_head,
        };
        p.general(General::Normalize(norm));
        // k *= 1 + (rate - 1) * k_a
        let by = p.act(rate, Act::Same, 1.0);
        let b = p.all(by);
        p.map_into(b, (1, dim), (Act::Same, Arg::Cols(b), 1.0), (Join::Add, Arg::Number(-1.0)));
        p.map_into(b, (1, dim), (Act::Same, Arg::Cols(b), 1.0), (Join::Mul, Arg::Weight(self.k_a)));
        p.map_into(b, (1, dim), (Act::Same, Arg::Cols(b), 1.0), (Join::Add, Arg::Number(1.0)));
        let keys = p.all(k);
        p.map_into(keys, (1, dim), (Act::Same, Arg::Cols(keys), 1.0), (Join::Mul, Arg::Cols(b)));
        let taken = p.all(rate); // what is taken out: unit * rate, at -unit
        p.map_into(taken, (1, dim), (Act::Same, Arg::Cols(taken), 1.0), (Join::Mul, Arg::Cols(u)));
        p.scale(unit, -1.0);
        let y = p.parts("wkv", dim);
        let scan = scan(ScanKind::Wkv7, (heads, hd), [r, k, v, decay], (layer, 2 * dim), y);
        p.general(General::Scan(Scan { a: Some(by_head), b: Some(cols(rate, 0, hd)), ..scan }));
        let out = cols(y, 0, hd);
        self.common.normalize_heads(p, out, heads);
        // y += v * (k . r * r_k), head by head
        let all = p.all(r);
        p.map_into(all, (1, dim), (Act::Same, Arg::Cols(all), 1.0), (Join::Mul, Arg::Cols(keys)));
        let by = p.dot((heads, hd), Arg::Cols(cols(r, 0, hd)), Arg::Weight(self.r_k), (Act::Same, 1.0));
        let values = cols(v, 0, hd);
        let own = p.parts("own", dim);
        let (to, by) = (cols(own, 0, hd), Arg::PerGroup(cols(by, 0, 1)));
        p.map_into(to, (heads, hd), (Act::Same, Arg::Cols(values), 1.0), (Join::Mul, by));
        p.add(own, 1.0, y);
        if let Some([down, up]) = self.gate {
            let xg = part(p, 5);
            let down = p.matmul("gate_a", xg, vec![down]);
            let down = p.act(down, Act::Sigmoid, 1.0);
            let gate = multiply_small(p, down, up);
            let all = p.all(y);
            p.map_into(all, (1, dim), (Act::Same, Arg::Cols(p.all(gate)), 1.0), (Join::Mul, Arg::Cols(all)));
        }
        y
    }
}

fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

/// A state of `heads` by `hd` columns, read by r, written at k with v.
fn scan(
    kind: ScanKind,
    (heads, hd): (usize, usize),
    [r, k, v, decay]: [Val; 4],
    (layer, at): (usize, usize),
    y: Val,
) -> Scan {
    let by_head = |val| cols(val, 0, hd);
    Scan {
        kind,
        heads,
        v_dim: hd,
        k_dim: hd,
        groups: heads,
        tiled: false,
        q: by_head(r),
        k: by_head(k),
        v: by_head(v),
        decay: Some(by_head(decay)),
        decay_per_column: true,
        rate: None,
        a: None,
        b: None,
        factor: None,
        soft: None,
        skip: None,
        scale: 1.0,
        layer,
        at,
        out: by_head(y),
    }
}

/// A product with few inputs.
fn multiply_small(p: &mut Builder, x: Val, part: MatPart) -> Val {
    let out = p.parts("up", p.rows_of(part.weight));
    let columns = p.width_of(x);
    p.narrow_matmul(x, part.weight, columns, out);
    out
}

/// Key/value heads, each as often as query heads share it.
fn repeat(p: &mut Builder, x: Val, kv_heads: usize, heads: usize, hd: usize) -> Val {
    if kv_heads == heads {
        return x;
    }
    let (out, each) = (p.parts("repeated", heads * hd), heads / kv_heads.max(1));
    for j in 0..each {
        p.copy_into(cols(x, 0, hd), cols(out, j * hd, each * hd), kv_heads, hd);
    }
    out
}
