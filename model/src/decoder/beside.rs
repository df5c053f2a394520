//! Experts beside a dense block, each with norms of its own: Gemma 4's and Arctic's.

use super::dense::Dense;
use super::experts::Experts;
use super::{Family, LayerNorm};
use crate::weights::Weights;
use pumex_plan::{Builder, NormKind, Val, Weight};

/// Weights of both.
pub struct Beside {
    dense: Dense,
    experts: Experts,
    /// Norm of the layer's input, which the experts take instead of what attention gives.
    input_norm: Option<LayerNorm>,
    /// Norm of what attention gives, before the experts.
    experts_norm: Option<LayerNorm>,
    /// Norms of what the dense block and of what the experts give.
    post_norms: [Option<LayerNorm>; 2],
    /// `[dim]`, of the router's input, which is normed without weights then.
    router_scale: Option<Weight>,
}

impl Beside {
    /// Declares `blk.N.ffn_*` and its norms.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Beside {
        let (dim, name) = (f.c.n_embd, |part: &str| format!("blk.{i}.{part}"));
        // A router's scale is no factor of its product here.
        let router_scale = w.opt_vector(&name("ffn_gate_inp.scale"), dim);
        let width = w.dims(&name("ffn_up.weight")).get(1).copied().unwrap_or(f.layers[i].ffn.width);
        let norm = |w: &mut Weights<'_>, part: &str| LayerNorm::declare(w, &name(part), dim);
        Beside {
            dense: Dense::declare(w, (i, ""), dim, width),
            experts: Experts::declare(w, f, i),
            input_norm: norm(w, "ffn_norm_exps"),
            experts_norm: norm(w, "pre_ffw_norm_2"),
            post_norms: [norm(w, "post_ffw_norm_1"), norm(w, "post_ffw_norm_2")],
            router_scale,
        }
    }

    /// The experts' input, if it is the layer's `x`.
    pub fn ahead(&self, p: &mut Builder, f: &Family, x: Val) -> Option<Val> {
        self.input_norm.map(|norm| f.normalize(p, Some(norm), x))
    }

    /// Both, for rows `x` that attention gave and the normed rows `h` of them, added to `x`, all `[n, dim]`.
    pub fn run(
        &self,
        p: &mut Builder,
        f: &Family,
        (i, h, ahead): (usize, Val, Option<Val>),
        norm: Option<LayerNorm>,
        x: Val,
    ) -> Val {
        let dim = f.c.n_embd;
        let logits = self.router_scale.map(|scale| {
            let input = p.normalize(NormKind::Rms, x, Some(scale), None, f.c.eps);
            p.scale(input, 1.0 / (dim as f32).sqrt());
            p.matmul("router", input, vec![self.experts.router])
        });
        let input = ahead.unwrap_or_else(|| f.normalize(p, self.experts_norm, x));
        let routed = p.zeros(dim);
        self.experts.run(p, (&f.moe, 1.0), logits, input, routed);
        let routed = f.normalize(p, self.post_norms[1], routed);
        let hidden = self.dense.multiply_in(p, f, h, f.layers[i].ffn.act);
        let dense = p.matmul("out", hidden, vec![self.dense.down]);
        let dense = f.normalize(p, self.post_norms[0], dense);
        p.add(routed, 1.0, dense);
        f.join_value(p, dense, norm, x)
    }
}
