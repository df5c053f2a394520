//! Feed-forward blocks of the shared decoder: dense, of experts, of experts with a block that all rows take beside them.

use super::beside::Beside;
use super::channel_mix::ChannelMix;
use super::dense::{early, late, Dense};
use super::experts::Experts;
use super::{BesideExperts, Family, LayerNorm, Limit, Limited};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Join, MatPart, Val};

/// A layer's feed-forward block.
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// Columns between its products; 0 if there is none.
    pub width: usize,
    /// Whether it is one of experts.
    pub experts: bool,
    /// Activation of the gate, or of the product with `ffn_up` where there is no gate; experts have one of their own.
    pub act: Act,
    /// Limits of gates, by [`Limited`].
    pub limits: [Option<Limit>; 2],
    /// Gates that are less than so many deviations above their mean are cut off.
    pub sparse: Option<f32>,
    /// Whether a row's experts follow from its id.
    pub by_id: bool,
}

/// Weights of a feed-forward block.
pub enum Ffn {
    /// One for all rows.
    Dense(Dense),
    /// Experts, and one for all rows beside them.
    Experts(Box<Experts>, Option<Shared>),
    /// RWKV's.
    ChannelMix(ChannelMix),
    /// Experts and a dense block with norms of their own.
    Beside(Box<Beside>),
}

/// A block that all rows take, with the weight that each row gives it.
pub struct Shared {
    block: Dense,
    /// `[dim]`
    gate: Option<MatPart>,
}

impl Ffn {
    /// Declares `blk.N.ffn_*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Ffn {
        let (dim, layer) = (f.c.n_embd, &f.layers[i]);
        if w.has_rather(&format!("blk.{i}.channel_mix_key.weight"), &format!("blk.{i}.ffn_up.weight")) {
            return Ffn::ChannelMix(ChannelMix::declare(w, f, i));
        }
        let limit = layer.ffn.limits[Limited::Dense as usize];
        if !layer.ffn.experts {
            return Ffn::Dense(
                Dense::declare(w, (i, ""), dim, layer.ffn.width).limit_by(limit).cut_below(layer.ffn.sparse),
            );
        }
        if f.moe.beside == BesideExperts::DenseNormed {
            return Ffn::Beside(Box::new(Beside::declare(w, f, i)));
        }
        let experts = Experts::declare(w, f, i);
        let dense_beside = f.moe.beside == BesideExperts::Dense;
        let suffix = if dense_beside { "" } else { "_shexp" };
        let up = format!("blk.{i}.ffn_up{suffix}.weight");
        let rows = match f.c.shares_experts.filter(|_| !dense_beside) {
            Some(false) => w.dims_if_there(&up),
            Some(true) if w.requires(&format!("blk.{i}.ffn_down{suffix}.weight")) => w.required_dims(&up),
            _ => w.dims(&up),
        };
        let rows = rows.get(1).copied();
        let shared = rows.map(|ffn| Shared {
            block: Dense::declare(w, (i, suffix), dim, ffn).limit_by(limit),
            gate: w.opt_vector(&format!("blk.{i}.ffn_gate_inp_shexp.weight"), dim).map(|weight| MatPart {
                weight,
                bias: None,
                scale: 1.0,
            }),
        });
        Ffn::Experts(Box::new(experts), shared)
    }

    /// What must be taken of the layer's input `x` before attention changes it: the router's logits, or the experts' input.
    pub fn ahead(&self, p: &mut Builder, f: &Family, x: Val) -> Option<Val> {
        match self {
            Ffn::Experts(experts, _) if f.moe.by_residual => Some(p.matmul("router", x, vec![experts.router])),
            Ffn::Beside(both) => both.ahead(p, f, x),
            _ => None,
        }
    }

    /// The block's result for normed rows `h` of layer `i`, added to `x`, both `[n, dim]`. `by`: see [`Ffn::ahead`].
    pub fn run(
        &self,
        p: &mut Builder,
        f: &Family,
        (i, h, by): (usize, Val, Option<Val>),
        norm: Option<LayerNorm>,
        x: Val,
    ) -> Val {
        let act = f.layers[i].ffn.act;
        let (experts, shared) = match self {
            Ffn::Dense(dense) => {
                let hidden = dense.multiply_in(p, f, h, act);
                if !late(&dense.down) {
                    return f.join(p, hidden, dense.down, norm, x);
                }
                let out = p.matmul("out", hidden, vec![early(dense.down)]);
                p.scale(out, dense.down.scale);
                return f.join_value(p, out, norm, x);
            }
            Ffn::Experts(experts, shared) => (experts, shared),
            Ffn::ChannelMix(mix) => return mix.run(p, f, (i, h), x),
            Ffn::Beside(both) => return both.run(p, f, (i, h, by), norm, x),
        };
        // What is added to the residual stream itself is scaled where it is made.
        let scales = f.residual.scale == 1.0 || !f.moe.weighs_input;
        let direct = norm.is_none() && f.moe.average.is_none() && scales;
        let (out, times) = if direct { (x, f.residual.scale) } else { (p.zeros(p.width_of(x)), 1.0) };
        // What reads the normed rows comes before anything is added to what they were made of.
        let beside = shared.as_ref().map(|Shared { block, gate }| {
            let hidden = block.multiply_in(p, f, h, act);
            (block.down, hidden, gate.map(|gate| p.matmul("shared_gate", h, vec![gate])))
            // [n, 1]
        });
        experts.run(p, (&f.moe, times), by, h, out);
        if let Some((down, hidden, gate)) = beside {
            let gated = |p: &mut Builder, x: Val, gate: Val| {
                let (all, by) = (p.all(x), Arg::PerGroup(Cols { val: gate, at: 0, stride: 1 }));
                p.map_into(all, (1, all.stride), (Act::Sigmoid, by, 1.0), (Join::Mul, Arg::Cols(all)));
            };
            if down.bias.is_none() {
                // The narrower side is gated.
                if let Some(gate) = gate {
                    gated(p, hidden, gate);
                }
                p.matmul_add(hidden, MatPart { scale: down.scale * times, ..down }, out);
            } else {
                let both = p.matmul("shared", hidden, vec![down]);
                if let Some(gate) = gate {
                    gated(p, both, gate);
                }
                p.add(both, times, out);
            }
        }
        if direct {
            return out;
        }
        if let Some(factor) = f.moe.average.filter(|_| shared.is_some()) {
            p.scale(out, factor);
        }
        f.join_value(p, out, norm, x)
    }
}
