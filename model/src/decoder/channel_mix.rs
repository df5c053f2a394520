//! RWKV's feed-forward block: rows mixed with the one before, squared ReLU, in some a gate.

use super::Family;
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, General, Join, MatPart, Shift, Val, Weight};

/// Weights of RWKV's feed-forward block, which mixes rows with the one before, too.
pub struct ChannelMix {
    lerp_k: Weight,
    /// With its product, `[dim, dim]`.
    receptance: Option<(Weight, MatPart)>,
    key: MatPart,
    value: MatPart,
}

impl ChannelMix {
    /// Declares `blk.N.channel_mix_*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> ChannelMix {
        let (dim, ffn) = (f.c.n_embd, f.layers[i].ffn.width);
        let name = |part: &str| format!("blk.{i}.channel_mix_{part}");
        let lerp = |w: &mut Weights<'_>, part: &str| {
            let name = format!("{}.weight", name(part));
            let dims = w.dims(&name);
            w.shaped(&name, &dims, dim)
        };
        let receives = w.has(&format!("{}.weight", name("receptance")));
        ChannelMix {
            lerp_k: lerp(w, "lerp_k"),
            receptance: receives.then(|| (lerp(w, "lerp_r"), w.linear(&name("receptance"), dim, dim))),
            key: w.linear(&name("key"), ffn, dim),
            value: w.linear(&name("value"), dim, ffn),
        }
    }

    /// The block's result for normed rows `h` of layer `layer`, added to `x`, both `[n, dim]`.
    pub fn run(&self, p: &mut Builder, f: &Family, (layer, h): (usize, Val), x: Val) -> Val {
        let before = subtract_before(p, (layer, f.c.n_embd), h);
        let mixed = interpolate(p, h, before, self.lerp_k);
        let hidden = p.matmul("key", mixed, vec![self.key]);
        let hidden = p.act(hidden, Act::ReluSquared, 1.0);
        let Some((lerp, receptance)) = self.receptance else {
            return p.matmul_add(hidden, self.value, x);
        };
        let mixed = interpolate(p, h, before, lerp);
        let gate = p.matmul("receptance", mixed, vec![receptance]);
        let out = p.matmul("value", hidden, vec![self.value]);
        let all = p.all(out);
        let by = (Act::Sigmoid, Arg::Cols(p.all(gate)), 1.0);
        p.map_into(all, (1, all.stride), by, (Join::Mul, Arg::Cols(all)));
        p.add(out, 1.0, x)
    }
}

/// The row before each row, less the row: `[n, dim]`.
pub fn subtract_before(p: &mut Builder, (layer, at): (usize, usize), x: Val) -> Val {
    let out = p.parts("before", p.width_of(x));
    p.general(General::Shift(Shift { x, layer, at, out }));
    p.add(x, -1.0, out)
}

/// `x + weight * change`
pub fn interpolate(p: &mut Builder, x: Val, change: Val, weight: Weight) -> Val {
    let out = p.parts("lerp", p.width_of(x));
    let all = p.all(out);
    let from = (Act::Same, Arg::Cols(p.all(change)), 1.0);
    p.map_into(all, (1, all.stride), from, (Join::Mul, Arg::Weight(weight)));
    p.add(x, 1.0, out)
}
