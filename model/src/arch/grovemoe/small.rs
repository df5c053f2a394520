//! GroveMoE's small experts: neighbours among the usual ones share one, which sees what those gave.

use crate::decoder::{AddSmall, SmallExperts};
use crate::weights::Weights;
use pumex_plan::{Builder, Choose, Gate, Gating, General, TopK, Val, Weight, LEAST_SUM};

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub struct Grove {
    /// Experts that share a small one; divides how many there are.
    pub sharing: usize,
    /// Width of a small one.
    pub ffn: usize,
    /// Factor of what they add.
    pub scale: f32,
}

impl SmallExperts for Grove {
    fn declare(&self, w: &mut Weights<'_>, (i, dim): (usize, usize), usual: TopK) -> Box<dyn AddSmall> {
        Box::new(GroveWeights::declare(w, (i, dim), *self, usual))
    }
}

/// Weights of a layer's small experts.
struct GroveWeights {
    /// `[small, ffn, dim]`
    gate: Weight,
    up: Weight,
    /// `[small, dim, ffn]`
    down: Weight,
    sizes: Grove,
    /// How many usual experts there are, and how many small ones a row has.
    top_k: TopK,
}

impl GroveWeights {
    /// Declares `blk.N.ffn_{gate,up,down}_chexps`.
    fn declare(w: &mut Weights<'_>, (i, dim): (usize, usize), sizes: Grove, usual: TopK) -> GroveWeights {
        let name = |part: &str| format!("blk.{i}.ffn_{part}_chexps");
        let (n, ffn) = (usual.n_expert / sizes.sharing, sizes.ffn);
        GroveWeights {
            gate: w.experts(&name("gate"), [n, ffn, dim]).weight,
            up: w.experts(&name("up"), [n, ffn, dim]).weight,
            down: w.experts(&name("down"), [n, dim, ffn]).weight,
            sizes,
            top_k: TopK { k: usual.k.min(n), ..usual },
        }
    }
}

impl AddSmall for GroveWeights {
    fn run(&self, p: &mut Builder, logits: Val, x: Val) {
        let route = p.parts("route", 4 * self.top_k.k);
        p.general(General::Choose(Choose {
            logits,
            router: None,
            top_k: self.top_k,
            gating: Gating::Softmax,
            bias: None,
            groups: None,
            table: None,
            least_sum: Some(LEAST_SUM),
            scale: self.sizes.scale,
            sharing: self.sizes.sharing,
            out: route,
        }));
        let top_k = TopK { n_expert: self.top_k.n_expert / self.sizes.sharing, ..self.top_k };
        let hidden = p.matmul_gated_experts(x, (route, top_k), [self.gate, self.up], [None; 2], Gate::SILU);
        p.experts_add(hidden, (route, top_k), self.down, None, x);
    }
}
