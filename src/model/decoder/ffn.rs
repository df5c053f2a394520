//! Feed-forward blocks of the shared decoder: gated or not, of experts, with experts that all rows share.

use super::{Family, LayerNorm, Moe};
use crate::model::weights::Weights;
use crate::plan::{
    Act, Arg, Builder, Choose, Cols, ExpertPart, ExpertsBias, ExpertsMatMul, Gating, General, Join, MatPart, TopK, Val,
    Weight, LEAST_SUM,
};

/// Weights of a feed-forward block.
pub enum Ffn {
    /// One for all rows.
    Dense(Dense),
    /// Experts, and one for all rows beside them.
    Experts(Box<Experts>, Option<Shared>),
}

/// Weights of a dense block.
pub struct Dense {
    /// `[ffn, dim]`; none where `up` has both or there is no gate.
    gate: Option<MatPart>,
    /// `[ffn, dim]`, or `[2 * ffn, dim]`: gate and up.
    up: MatPart,
    /// `[dim, ffn]`
    down: MatPart,
    sub_norm: Option<LayerNorm>,
    /// `[ffn]`: what comes of the activation is divided by these.
    act_scales: Option<Weight>,
    /// Whether `up` has both.
    fused: bool,
    ffn: usize,
}

/// A block that all rows take, with the weight that each row gives it.
pub struct Shared {
    block: Dense,
    /// `[dim]`
    gate: Option<MatPart>,
}

/// Weights of experts.
pub struct Experts {
    router: MatPart,
    /// `[experts]`, added where experts are chosen.
    selection: Option<Weight>,
    gate: Option<ExpertPart>,
    /// Or both, `[experts, 2 * ffn, dim]`.
    up: ExpertPart,
    fused: bool,
    down: ExpertPart,
    /// Of gate, up and down, `[experts, m]`.
    biases: [Option<Weight>; 3],
    ffn: usize,
    top_k: TopK,
}

impl Dense {
    /// Declares `blk.N.ffn_{gate,up,down}SUFFIX`.
    pub fn declare(w: &mut Weights<'_>, scaled: bool, (i, suffix): (usize, &str), dim: usize, ffn: usize) -> Dense {
        let name = |part: &str| format!("blk.{i}.ffn_{part}{suffix}");
        let gated = w.has(&format!("{}.weight", name("gate")));
        let rows = w.dims(&format!("{}.weight", name("up"))).get(1).copied();
        let fused = !gated && rows == Some(2 * ffn);
        let linear = |w: &mut Weights<'_>, part: &str, m: usize, k: usize| match scaled {
            true => w.linear(&name(part), m, k),
            false => w.linear_unscaled(&name(part), m, k),
        };
        Dense {
            gate: gated.then(|| linear(w, "gate", ffn, dim)),
            up: linear(w, "up", if fused { 2 * ffn } else { ffn }, dim),
            down: linear(w, "down", dim, ffn),
            sub_norm: LayerNorm::declare(w, &name("sub_norm"), ffn),
            act_scales: w.opt_vector(&format!("blk.{i}.ffn.act.scales"), ffn),
            fused,
            ffn,
        }
    }

    /// Normed rows `[n, dim]` → `[n, ffn]`, what `down` takes.
    fn hidden(&self, p: &mut Builder, f: &Family, h: Val, act: Act) -> Val {
        let hidden = match self.gate {
            Some(gate) if act == Act::Silu && !late(&gate) && !late(&self.up) => p.gated(h, gate, self.up),
            Some(gate) => {
                let both = p.matmul("gate_up", h, vec![early(gate), early(self.up)]);
                scale_late(p, both, 0, self.ffn, &gate);
                scale_late(p, both, self.ffn, self.ffn, &self.up);
                p.glu(both, act, self.ffn)
            }
            None => {
                let up = p.matmul("up", h, vec![early(self.up)]);
                scale_late(p, up, 0, p.width_of(up), &self.up);
                match self.fused {
                    true => p.glu(up, act, self.ffn),
                    false => {
                        let out = p.act(up, act, 1.0);
                        if let Some(scales) = self.act_scales {
                            let all = p.all(out);
                            let by = (Act::Inverse, Arg::Weight(scales), 1.0);
                            p.map_into(all, (1, all.stride), by, (Join::Mul, Arg::Cols(all)));
                        }
                        out
                    }
                }
            }
        };
        match self.sub_norm {
            Some(LayerNorm { weight, bias }) => p.normalize(f.norm, hidden, weight, bias, f.c.eps),
            None => hidden,
        }
    }
}

impl Experts {
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Experts {
        let (n, ffn, dim) = (f.c.n_expert, f.c.n_ff_exp, f.c.n_embd);
        let name = |part: &str| format!("blk.{i}.ffn_{part}");
        let fused = w.has(&format!("{}.weight", name("gate_up_exps")));
        let gated = w.has(&format!("{}.weight", name("gate_exps")));
        let up = if fused { "gate_up_exps" } else { "up_exps" };
        let both = if fused { 2 * ffn } else { ffn };
        let bias = |w: &mut Weights<'_>, part: &str, m: usize| w.opt_table(&format!("{}.bias", name(part)), &[m, n]);
        let experts = Experts {
            router: w.linear_unscaled(&name("gate_inp"), n, dim),
            selection: w.opt_vector(&format!("blk.{i}.exp_probs_b.bias"), n),
            gate: gated.then(|| w.experts(&name("gate_exps"), f.ffn_scales, [n, ffn, dim])),
            up: w.experts(&name(up), f.ffn_scales, [n, both, dim]),
            fused,
            down: w.experts(&name("down_exps"), f.ffn_scales, [n, dim, ffn]),
            biases: [bias(w, "gate_exps", ffn), bias(w, up, both), bias(w, "down_exps", dim)],
            ffn,
            top_k: TopK { n_expert: n, k: f.c.n_expert_used },
        };
        // Only the usual routing hands scales on, and only the usual product takes those of gate and up.
        let up = experts.up.scale.or(experts.gate.and_then(|g| g.scale)).is_some();
        if up && !experts.is_plain(&f.moe) || (up || experts.down.scale.is_some()) && !experts.routes_usually(&f.moe) {
            let what = format!("blk.{i}.ffn_*_exps.scale: expected no scales beside the experts of this family");
            w.problem("unsupported_tensor", what);
        }
        experts
    }

    /// Whether they are chosen by a softmax whose largest are made to sum up to 1.
    fn routes_usually(&self, m: &Moe) -> bool {
        m.gating == Gating::Softmax && m.normalized && self.selection.is_none() && m.groups.is_none()
    }

    /// Whether one op multiplies with gate and up.
    fn is_plain(&self, m: &Moe) -> bool {
        let bare = self.biases.iter().all(Option::is_none);
        self.gate.is_some() && m.act == Act::Silu && !m.weighs_input && bare
    }

    /// Adds the experts' weighted sum to `out` `[n, dim]`. `logits` are the router's, if they are there.
    fn run(&self, p: &mut Builder, m: &Moe, logits: Option<Val>, h: Val, out: Val) {
        let logits = logits.unwrap_or_else(|| p.matmul("router", h, vec![self.router])); // [n, experts]
        let scales = [self.gate.and_then(|g| g.scale), self.up.scale, self.down.scale];
        let route = if self.routes_usually(m) {
            p.route(logits, self.top_k, m.scale, scales)
        } else {
            let route = p.parts("route", 4 * self.top_k.k);
            p.general(General::Choose(Choose {
                logits,
                top_k: self.top_k,
                gating: m.gating,
                bias: self.selection,
                groups: m.groups,
                least_sum: m.normalized.then_some(LEAST_SUM),
                scale: m.scale,
                out: route,
            }));
            route
        };
        let hidden = match self.gate {
            Some(gate) if self.is_plain(m) => p.gated_experts(h, route, self.top_k, gate.weight, self.up.weight),
            _ => self.hidden(p, m, h, route),
        };
        p.experts_add(hidden, route, self.top_k, self.down.weight, out);
        self.add_bias(p, 2, route, out, true);
    }

    fn add_bias(&self, p: &mut Builder, which: usize, route: Val, out: Val, summed: bool) {
        if let Some(bias) = self.biases[which] {
            p.general(General::ExpertsBias(ExpertsBias { route, top_k: self.top_k, bias, summed, out }));
        }
    }

    /// Products with gate and up, side by side for each expert → `[n, used * ffn]`.
    fn hidden(&self, p: &mut Builder, m: &Moe, h: Val, route: Val) -> Val {
        let (used, ffn) = (self.top_k.k, self.ffn);
        let h = if m.weighs_input { self.weighed(p, h, route) } else { h };
        let product = |p: &mut Builder, weight: Weight, which: usize, width: usize| {
            let out = p.parts("experts", used * width);
            let (top_k, own_input) = (self.top_k, m.weighs_input);
            p.general(General::ExpertsMatMul(ExpertsMatMul { x: h, route, top_k, weight, own_input, out }));
            self.add_bias(p, which, route, out, false);
            out
        };
        let up = product(p, self.up.weight, 1, if self.fused { 2 * ffn } else { ffn });
        let (gate, up) = match self.gate {
            Some(gate) => {
                let gate = product(p, gate.weight, 0, ffn);
                (Some(Cols { val: gate, at: 0, stride: ffn }), Cols { val: up, at: 0, stride: ffn })
            }
            None if self.fused => {
                (Some(Cols { val: up, at: 0, stride: 2 * ffn }), Cols { val: up, at: ffn, stride: 2 * ffn })
            }
            None => (None, Cols { val: up, at: 0, stride: ffn }),
        };
        let out = p.parts("hidden", used * ffn);
        let to = Cols { val: out, at: 0, stride: ffn };
        let Some(gate) = gate else {
            p.map_into(to, (used, ffn), (m.act, Arg::Cols(up), 1.0), (Join::Add, Arg::Number(0.0)));
            return out;
        };
        if let Act::SiluClamped(_, limit) = m.act {
            // gpt-oss: up is limited too, and has 1 added.
            let clamp = (Act::Clamp(-limit, limit), Arg::Cols(up), 1.0);
            p.map_into(up, (used, ffn), clamp, (Join::Add, Arg::Number(1.0)));
        }
        p.map_into(to, (used, ffn), (m.act, Arg::Cols(gate), 1.0), (Join::Mul, Arg::Cols(up)));
        out
    }

    /// A row for each expert, times its weight, which is 1 afterwards.
    fn weighed(&self, p: &mut Builder, h: Val, route: Val) -> Val {
        let (used, dim) = (self.top_k.k, p.width_of(h));
        let out = p.parts("weighed", used * dim);
        let to = Cols { val: out, at: 0, stride: dim };
        let weights = Cols { val: route, at: used, stride: 1 };
        let same = Arg::Cols(Cols { val: h, at: 0, stride: 0 });
        p.map_into(to, (used, dim), (Act::Same, Arg::PerGroup(weights), 1.0), (Join::Mul, same));
        p.map_into(weights, (1, used), (Act::Same, Arg::Number(1.0), 1.0), (Join::Add, Arg::Number(0.0)));
        out
    }
}

impl Ffn {
    /// Declares `blk.N.ffn_*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Ffn {
        let (dim, layer) = (f.c.n_embd, &f.layers[i]);
        if !layer.experts {
            return Ffn::Dense(Dense::declare(w, f.ffn_scales, (i, ""), dim, layer.n_ff));
        }
        let experts = Experts::declare(w, f, i);
        let suffix = if f.moe.dense_beside { "" } else { "_shexp" };
        let rows = w.dims(&format!("blk.{i}.ffn_up{suffix}.weight")).get(1).copied();
        let shared = rows.map(|ffn| Shared {
            block: Dense::declare(w, f.ffn_scales, (i, suffix), dim, ffn),
            gate: w.opt_vector(&format!("blk.{i}.ffn_gate_inp_shexp.weight"), dim).map(|weight| MatPart {
                weight,
                bias: None,
                scale: 1.0,
            }),
        });
        Ffn::Experts(Box::new(experts), shared)
    }

    /// The router's logits for `x`, `[n, experts]`.
    pub fn router(&self, p: &mut Builder, x: Val) -> Option<Val> {
        let Ffn::Experts(experts, _) = self else { return None };
        Some(p.matmul("router", x, vec![experts.router]))
    }

    /// The block's result for normed rows `h` of layer `i`, added to `x`, both `[n, dim]`. `by`: the router's logits.
    pub fn run(
        &self,
        p: &mut Builder,
        f: &Family,
        (i, h, by): (usize, Val, Option<Val>),
        norm: Option<LayerNorm>,
        x: Val,
    ) -> Val {
        let act = f.acts.get(i).copied().unwrap_or(f.act);
        let (experts, shared) = match self {
            Ffn::Dense(dense) => {
                let hidden = dense.hidden(p, f, h, act);
                if !late(&dense.down) {
                    return f.join(p, hidden, dense.down, norm, x);
                }
                let out = p.matmul("out", hidden, vec![early(dense.down)]);
                p.scale(out, dense.down.scale);
                return f.join_value(p, out, norm, x);
            }
            Ffn::Experts(experts, shared) => (experts, shared),
        };
        let direct = norm.is_none() && f.residual_scale == 1.0 && f.moe.average.is_none();
        let out = if direct { x } else { zeros(p, p.width_of(x)) };
        experts.run(p, &f.moe, by, h, out);
        if let Some(Shared { block, gate }) = shared {
            let hidden = block.hidden(p, f, h, act);
            match gate {
                None => {
                    p.matmul_add(hidden, block.down, out);
                }
                Some(gate) => {
                    let gate = p.matmul("shared_gate", h, vec![*gate]); // [n, 1]
                    let both = p.matmul("shared", hidden, vec![block.down]);
                    let all = p.all(both);
                    let by = Arg::PerGroup(Cols { val: gate, at: 0, stride: 1 });
                    p.map_into(all, (1, all.stride), (Act::Sigmoid, by, 1.0), (Join::Mul, Arg::Cols(all)));
                    p.add(both, 1.0, out);
                }
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

/// Whether a product's scale counts for its bias too, so that it must come afterwards.
fn late(part: &MatPart) -> bool {
    part.bias.is_some() && part.scale != 1.0
}

/// A product without a scale that comes afterwards.
fn early(part: MatPart) -> MatPart {
    MatPart { scale: if late(&part) { 1.0 } else { part.scale }, ..part }
}

/// Multiplies columns of a product with its scale, if that comes afterwards.
fn scale_late(p: &mut Builder, product: Val, at: usize, len: usize, part: &MatPart) {
    if late(part) {
        let cols = Cols { val: product, at, stride: len };
        p.map_into(cols, (1, len), (Act::Same, Arg::Cols(cols), part.scale), (Join::Add, Arg::Number(0.0)));
    }
}

/// A value of zeros.
pub fn zeros(p: &mut Builder, width: usize) -> Val {
    let out = p.parts("sum", width);
    let all = p.all(out);
    p.map_into(all, (1, width), (Act::Same, Arg::Number(0.0), 1.0), (Join::Add, Arg::Number(0.0)));
    out
}
