//! Experts that give values: a row's v is the weighted sum of `silu` of what its experts make of it.

use crate::decoder::{Family, GiveValues, Values};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Choose, Cols, ExpertPart, ExpertsMatMul, General, Join, MatPart, TopK, Val, Weight, LEAST_SUM,
};

/// Experts that give values: how many, and how many of them a row uses.
#[derive(Debug)]
pub struct ValueExperts(pub TopK);

impl Values for ValueExperts {
    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn GiveValues> {
        Box::new(ValueWeights::declare(w, f, i, self.0))
    }
}

/// Weights of a layer's value experts.
struct ValueWeights {
    router: MatPart,
    /// `[experts]`, added where experts are chosen.
    selection: Option<Weight>,
    /// `[experts, kv_heads * v_dim, dim]`
    experts: ExpertPart,
    top_k: TopK,
}

impl ValueWeights {
    /// Declares `blk.N.attn_{v_gate,v_exps}`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, top_k: TopK) -> ValueWeights {
        let (l, dim) = (&f.layers[i], f.c.n_embd);
        let (gate, experts) = (format!("blk.{i}.attn_v_gate"), format!("blk.{i}.attn_v_exps"));
        let weight = w.matrix(&format!("{gate}.weight"), top_k.n_expert, dim);
        ValueWeights {
            router: MatPart { weight, bias: None, scale: 1.0 },
            selection: w.opt_vector(&format!("{gate}.bias"), top_k.n_expert),
            experts: w.experts(&experts, [top_k.n_expert, l.kv_heads * l.v_dim, dim]),
            top_k,
        }
    }
}

impl GiveValues for ValueWeights {
    /// Rows are routed as they are to the layer's experts.
    fn run(&self, p: &mut Builder, f: &Family, h: Val, v: Cols) {
        let m = &f.moe;
        let (used, width) = (self.top_k.k, v.stride);
        let logits = p.matmul("router", h, vec![self.router]); // [n, experts]
        let route = p.parts("route", 4 * used);
        p.general(General::Choose(Choose {
            logits,
            router: None,
            top_k: self.top_k,
            gating: m.gating,
            bias: self.selection,
            groups: None,
            table: None,
            least_sum: m.normalized.then_some(LEAST_SUM),
            scale: m.scale,
            sharing: 1,
            out: route,
        }));
        let out = p.parts("values", used * width);
        let (top_k, weight) = (self.top_k, self.experts.weight);
        p.general(General::ExpertsMatMul(ExpertsMatMul { x: h, route, top_k, weight, own_input: false, out }));
        let (all, by) = (Cols { val: out, at: 0, stride: width }, Cols { val: route, at: used, stride: 1 });
        p.map_into(all, (used, width), (Act::Silu, Arg::Cols(all), 1.0), (Join::Mul, Arg::PerGroup(by)));
        p.copy_into(all, v, 1, width);
        for one in 1..used {
            let next = Arg::Cols(Cols { at: one * width, ..all });
            p.map_into(v, (1, width), (Act::Same, next, 1.0), (Join::Add, Arg::Cols(v)));
        }
    }
}
