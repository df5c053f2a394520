//! Experts: how rows reach them, and what they do.

use super::dense::{limit, raise};
use super::{Family, LayerNorm, Limit, Limited};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Choose, Cols, ExpertPart, ExpertsBias, ExpertsMatMul, Gate, Gating, General, Groups, Join,
    MatPart, TopK, Val, Weight, LEAST_SUM,
};
use std::fmt::Debug;
use std::rc::Rc;

/// A block that all rows take beside the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideExperts {
    /// That of the shared experts, `ffn_*_shexp`, if the file has one.
    Shared,
    /// The layer's dense block, if the file has one.
    Dense,
    /// The layer's dense block, where it and the experts have norms of their own.
    DenseNormed,
}

/// How rows reach experts, and what those do.
#[derive(Clone, Debug)]
pub struct Moe {
    /// What logits become.
    pub gating: Gating,
    /// Whether weights are made to sum up to 1.
    pub normalized: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// Groups of experts.
    pub groups: Option<Groups>,
    /// Activation of the gate.
    pub act: Act,
    /// Whether rows are weighted before the experts instead of after them.
    pub weighs_input: bool,
    /// Whether the router looks at the layer's input, before any norm.
    pub by_residual: bool,
    /// What the sum of experts and of the block beside them is multiplied with, if that is not one.
    pub average: Option<f32>,
    /// The block that all rows take beside the experts.
    pub beside: BesideExperts,
    /// Small experts after the usual ones.
    pub small: Option<Rc<dyn SmallExperts>>,
    /// Columns of what experts work on, between products down and up; 0 if that is the normed rows.
    pub latent: usize,
}

impl Moe {
    /// Experts with gates of SiLU, whose weights a softmax gives, which are made to sum up to 1 and multiplied with `scale`.
    pub fn scaled(scale: f32) -> Moe {
        Moe {
            gating: Gating::Softmax,
            normalized: true,
            scale,
            groups: None,
            act: Act::Silu,
            weighs_input: false,
            by_residual: false,
            average: None,
            beside: BesideExperts::Shared,
            small: None,
            latent: 0,
        }
    }
}

/// Small experts after the usual ones.
pub trait SmallExperts: Debug {
    /// Declares those of layer `i`, of rows of `dim` columns, beside so many usual ones.
    fn declare(&self, w: &mut Weights<'_>, at: (usize, usize), usual: TopK) -> Box<dyn AddSmall>;
}

/// Small experts with a layer's weights.
pub trait AddSmall {
    /// Adds to `x` `[n, dim]` what they make of it, by the router's `logits`.
    fn run(&self, p: &mut Builder, logits: Val, x: Val);
}

/// Weights of experts.
pub struct Experts {
    pub router: MatPart,
    /// `[experts]`, added where experts are chosen.
    selection: Option<Weight>,
    gate: Option<ExpertPart>,
    /// `[experts, ffn, dim]`, or gate and up, `[experts, 2 * ffn, dim]`.
    up: ExpertPart,
    fused: bool,
    down: ExpertPart,
    /// Biases of gate, up and down, `[experts, m]`.
    biases: [Option<Weight>; 3],
    ffn: usize,
    top_k: TopK,
    /// Limit of gate and up.
    limit: Option<Limit>,
    small: Option<Box<dyn AddSmall>>,
    /// `[vocab, used]`: which a row uses by its id.
    table: Option<Weight>,
    latent: Option<Latent>,
}

/// Products around experts that work on fewer columns.
struct Latent {
    width: usize,
    down: MatPart,
    up: MatPart,
    norm: Option<LayerNorm>,
    eps: f32,
}

impl Experts {
    /// Declares `blk.N.ffn_{gate_inp,gate_exps,up_exps,down_exps}`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Experts {
        let (n, ffn, whole) = (f.c.n_expert, f.c.n_ff_exp[i], f.c.n_embd);
        let dim = if f.moe.latent > 0 { f.moe.latent } else { whole };
        let name = |part: &str| format!("blk.{i}.ffn_{part}");
        let weight = |part: &str| format!("{}.weight", name(part));
        let fused = w.has_rather(&weight("gate_up_exps"), &weight("up_exps"));
        let gated = !fused && w.has(&format!("{}.weight", name("gate_exps")));
        let up = if fused { "gate_up_exps" } else { "up_exps" };
        let both = if fused { 2 * ffn } else { ffn };
        let bias = |w: &mut Weights<'_>, part: &str, m: usize| w.opt_table(&format!("{}.bias", name(part)), &[m, n]);
        let top_k = TopK { n_expert: n, k: f.c.n_expert_used[i] };
        if top_k.k == 0 {
            let what = format!("blk.{i}.ffn_gate_inp.weight: expected expert_used_count of at least 1 there, found 0");
            w.problem("bad_hparam", what);
        }
        let experts = Experts {
            router: w.linear_unscaled(&name("gate_inp"), n, whole),
            selection: match f.layers[i].ffn.by_id {
                true => None,
                false => w
                    .opt_vector(&format!("blk.{i}.exp_probs_b.bias"), n)
                    .or_else(|| w.opt_vector(&format!("blk.{i}.exp_probs_b"), n)),
            },
            gate: gated.then(|| w.experts(&name("gate_exps"), [n, ffn, dim])),
            up: w.experts(&name(up), [n, both, dim]),
            fused,
            down: w.experts(&name("down_exps"), [n, dim, ffn]),
            biases: [bias(w, "gate_exps", ffn), bias(w, up, both), bias(w, "down_exps", dim)],
            ffn,
            top_k,
            limit: f.layers[i].ffn.limits[Limited::Experts as usize],
            small: f.moe.small.as_ref().map(|small| small.declare(w, (i, dim), top_k)),
            table: f.layers[i].ffn.by_id.then(|| {
                let dims = [top_k.k, w.vocab_rows()];
                w.integers(&format!("{}.weight", name("gate_tid2eid")), dims, n)
            }),
            latent: (f.moe.latent > 0).then(|| {
                let by = if w.has_rather(&weight("latent_down"), &weight("routed_down")) { "latent" } else { "routed" };
                Latent {
                    width: dim,
                    down: w.linear(&name(&format!("{by}_down")), dim, whole),
                    up: w.linear(&name(&format!("{by}_up")), whole, dim),
                    norm: LayerNorm::declare(w, &name("routed_norm"), dim),
                    eps: f.c.eps,
                }
            }),
        };
        // Biases are not scaled, and a row that is weighted before it is multiplied has no place for a scale afterwards.
        let biased = experts.biases.iter().any(Option::is_some);
        if experts.scales().iter().any(Option::is_some) && (biased || f.moe.weighs_input || experts.small.is_some()) {
            let what = format!("blk.{i}.ffn_*_exps.scale: expected no scales beside the experts of this family");
            w.problem("unsupported_tensor", what);
        }
        experts
    }

    /// Whether they are chosen by a softmax whose largest are made to sum up to 1, which a softmax of the taken is too.
    fn routes_usually(&self, m: &Moe) -> bool {
        (m.gating == Gating::Softmax && m.normalized || m.gating == Gating::SoftmaxOfTaken)
            && self.selection.is_none()
            && m.groups.is_none()
            && self.table.is_none()
    }

    /// `[experts]` each, of the products with gate, up and down.
    fn scales(&self) -> [Option<Weight>; 3] {
        [self.gate.and_then(|g| g.scale), self.up.scale, self.down.scale]
    }

    /// How gate and up meet, if one op multiplies with both. Only the usual gate takes scales.
    fn find_gate(&self, m: &Moe) -> Option<Gate> {
        let apart = self.gate.is_none() || m.weighs_input || self.limit.is_some();
        let scaled = self.scales()[..2].iter().any(Option::is_some);
        Gate::of(m.act).filter(|by| !apart && (!scaled || *by == Gate::SILU))
    }

    /// Adds the experts' weighted sum, so many times, to `out` `[n, dim]`. `logits` are the router's, if they are there.
    pub fn run(&self, p: &mut Builder, (m, times): (&Moe, f32), logits: Option<Val>, h: Val, out: Val) {
        let logits = logits.unwrap_or_else(|| p.matmul("router", h, vec![self.router])); // [n, experts]
        let Some(small) = &self.small else { return self.run_usual(p, (m, times), logits, h, out) };
        let sum = p.zeros(p.width_of(out));
        self.run_usual(p, (m, 1.0), logits, h, sum);
        small.run(p, logits, sum);
        p.add(sum, times, out);
    }

    /// Adds the sum of the usual experts.
    fn run_usual(&self, p: &mut Builder, (m, times): (&Moe, f32), logits: Val, h: Val, out: Val) {
        let Some(latent) = &self.latent else { return self.run_routed(p, (m, times), logits, h, out) };
        let h = p.matmul("latent", h, vec![latent.down]);
        let sum = p.zeros(latent.width);
        self.run_routed(p, (m, 1.0), logits, h, sum);
        let sum = match latent.norm {
            Some(LayerNorm { weight: Some(weight), .. }) => p.rms_norm(sum, weight, latent.eps),
            _ => sum,
        };
        p.matmul_add(sum, MatPart { scale: latent.up.scale * times, ..latent.up }, out);
    }

    /// Adds the sum of the usual experts, for rows as these take them.
    fn run_routed(&self, p: &mut Builder, (m, times): (&Moe, f32), logits: Val, h: Val, out: Val) {
        let route = if self.routes_usually(m) {
            p.route(logits, self.top_k, m.scale * times, self.scales())
        } else {
            let route = p.parts("route", 4 * self.top_k.k);
            p.general(General::Choose(Choose {
                logits,
                router: None,
                top_k: self.top_k,
                gating: m.gating,
                bias: self.selection,
                groups: m.groups.filter(|_| self.table.is_none()),
                table: self.table,
                least_sum: m.normalized.then_some(LEAST_SUM),
                scale: m.scale * times,
                sharing: 1,
                out: route,
            }));
            self.scale_route(p, route);
            route
        };
        let hidden = match self.gate.zip(self.find_gate(m)) {
            Some((gate, by)) => {
                let [of_gate, of_up, _] = self.biases;
                p.matmul_gated_experts(h, (route, self.top_k), [gate.weight, self.up.weight], [of_gate, of_up], by)
            }
            None => self.multiply_in(p, m, h, route),
        };
        p.experts_add(hidden, (route, self.top_k), self.down.weight, self.biases[2], out);
    }

    /// Puts what experts' products are multiplied with into a route that has none.
    fn scale_route(&self, p: &mut Builder, route: Val) {
        let used = self.top_k.k;
        for (scales, part) in
            self.scales().into_iter().zip([2, 3, 1]).filter_map(|(scales, part)| Some((scales?, part)))
        {
            let of_taken = p.zeros(used);
            p.general(General::ExpertsBias(ExpertsBias { route, top_k: self.top_k, bias: scales, out: of_taken }));
            let (by, cols) = (Arg::Cols(p.all(of_taken)), Cols { val: route, at: part * used, stride: used });
            p.map_into(cols, (1, used), (Act::Same, by, 1.0), (Join::Mul, Arg::Cols(cols)));
        }
    }

    fn add_bias(&self, p: &mut Builder, which: usize, route: Val, out: Val) {
        if let Some(bias) = self.biases[which] {
            p.general(General::ExpertsBias(ExpertsBias { route, top_k: self.top_k, bias, out }));
        }
    }

    /// Products with gate and up, side by side for each expert → `[n, used * ffn]`.
    fn multiply_in(&self, p: &mut Builder, m: &Moe, h: Val, route: Val) -> Val {
        let (used, ffn) = (self.top_k.k, self.ffn);
        let h = if m.weighs_input { self.weigh(p, h, route) } else { h };
        let product = |p: &mut Builder, weight: Weight, which: usize, width: usize| {
            let out = p.parts("experts", used * width);
            let (top_k, own_input) = (self.top_k, m.weighs_input);
            p.general(General::ExpertsMatMul(ExpertsMatMul { x: h, route, top_k, weight, own_input, out }));
            if self.scales()[which].is_some() {
                let (by, cols) =
                    (Cols { val: route, at: (2 + which) * used, stride: 1 }, Cols { val: out, at: 0, stride: width });
                p.map_into(cols, (used, width), (Act::Same, Arg::PerGroup(by), 1.0), (Join::Mul, Arg::Cols(cols)));
            }
            self.add_bias(p, which, route, out);
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
        raise(p, up, (used, ffn), m.act);
        let act = limit(p, [gate, up], (used, ffn), m.act, self.limit);
        p.map_into(to, (used, ffn), (act, Arg::Cols(gate), 1.0), (Join::Mul, Arg::Cols(up)));
        out
    }

    /// A row for each expert, times its weight, which is 1 afterwards.
    fn weigh(&self, p: &mut Builder, h: Val, route: Val) -> Val {
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
