//! Why a dispatch has the kernel that it has: the others that could do its op, and what speaks against each.

use super::dispatch::Dispatch;
use super::fusion::{self, rows_of};
use super::{Lowered, Shape, Target};
use crate::policy::variant::{Asked, Held, Variant};
use crate::policy::{variant, FEW_ROWS};
use pumex_plan::{MatPart, Op, TopK, Weight};
use pumex_quant::Format;
use pumex_shaders::block::Value;
use pumex_vk::TunedProduct;

/// Kernels that could do what a dispatch does, best first; empty where there is no choice, or where the dispatch does several ops.
pub(super) fn variants(t: &Target<'_>, lowered: &Lowered, shape: Shape, d: &Dispatch) -> Vec<Variant> {
    let why = Why { t, lowered, shape, d };
    let all = match &lowered.plan.ops[d.op] {
        Op::MatMul { x, parts, .. } => why.product(rows_of(&lowered.plan, shape, *x), parts),
        Op::GatedMatMul { x, gate, up, .. } => why.product(rows_of(&lowered.plan, shape, *x), &[*gate, *up]),
        Op::GatedExperts { norm, gate, up, top_k, .. } => why.experts(&[*gate, *up], *top_k, norm.is_some()),
        Op::ExpertsAdd { down, top_k, .. } => why.experts(&[*down], *top_k, false),
        Op::Attend { spec, .. } => {
            let few = shape.rows <= FEW_ROWS || shape.decode_batch || spec.chosen.is_some();
            let halves = t.cache_types.0.becomes_halves() && t.cache_types.1.becomes_halves();
            variant::attention(t.caps, spec, few, halves, why.held())
        }
        _ => Vec::new(),
    };
    if all.iter().any(|variant| variant.kernel == d.kernel) {
        all
    } else {
        Vec::new()
    }
}

/// Products of a step whose shapes can be tuned, each with its op.
pub fn tunables(t: &Target<'_>, lowered: &Lowered, shape: Shape) -> Vec<(usize, TunedProduct)> {
    let of = |d: &Dispatch| {
        let taken =
            variants(t, lowered, shape, d).into_iter().find(|v| v.kernel == d.kernel && v.passed_over.is_none());
        taken.and_then(|v| v.tunable).map(|product| (d.op, product))
    };
    lowered.dispatches.iter().filter_map(of).collect()
}

struct Why<'a> {
    t: &'a Target<'a>,
    lowered: &'a Lowered,
    shape: Shape,
    d: &'a Dispatch,
}

impl Why<'_> {
    fn held(&self) -> Option<Held> {
        self.t.packing.map(|p| Held { direct: p.direct, ordered: p.ordered, panels: p.panels })
    }

    /// Outputs of the dispatch.
    fn outputs(&self) -> usize {
        let m = self.d.push.named().into_iter().find(|(name, _)| *name == "m");
        m.map_or(0, |(_, value)| match value {
            Value::Word(m) => m as usize,
            _ => 0,
        })
    }

    /// The value of a constant; 0 of one that the kernel is not given.
    fn constant(&self, constant: &str) -> u32 {
        self.d.constants.iter().find(|(name, _)| *name == constant).map_or(0, |(_, value)| *value)
    }

    fn product(&self, n: usize, parts: &[MatPart]) -> Vec<Variant> {
        let plan = &self.lowered.plan;
        let weight = |p: &&MatPart| &plan.weights[p.weight.0];
        let Some(part) = parts.iter().find(|p| Some(weight(p).format.stem) == self.d.format) else {
            // Products of floats have a kernel of their own without a format.
            let Some(part) = parts.first().filter(|_| self.d.kernel == "gemm_float") else { return Vec::new() };
            return self.asked(weight(&part).format, weight(&part).cols, n, parts);
        };
        if parts.iter().any(|part| fusion::is_short(plan, part)) {
            return Vec::new();
        }
        self.asked(weight(&part).format, weight(&part).cols, n, parts)
    }

    fn asked(&self, format: &'static Format, k: usize, n: usize, parts: &[MatPart]) -> Vec<Variant> {
        let beside: Vec<&Format> = parts.iter().map(|p| self.lowered.plan.weights[p.weight.0].format).collect();
        let (gated, gates) = (self.constant("GATED") > 0, self.constant("EPILOGUE") == 2);
        let (activations, held) = (self.t.activations, self.held());
        let rows = self.t.rows.map(|rows| rows.asked);
        let asked =
            Asked { format, size: (self.outputs(), k, n), gated, gates, beside: &beside, activations, held, rows };
        variant::product(self.t.caps, &asked)
    }

    fn experts(&self, weights: &[Weight], c: TopK, norm: bool) -> Vec<Variant> {
        let of = |w: &Weight| &self.lowered.plan.weights[w.0];
        let info = of(&weights[0]);
        let (m, gated) = (info.rows / c.n_expert.max(1), weights.len() == 2);
        let k = if gated { info.cols } else { c.k * info.cols };
        let beside: Vec<&Format> = weights.iter().map(|w| of(w).format).collect();
        let apart = match () {
            () if norm => Some("it norms its input"),
            () if !self.t.fuse => Some("ops are not merged"),
            () if beside.iter().any(|format| format.id != info.format.id) => Some("gate and up differ in format"),
            () if !self.t.packing.is_some_and(|p| p.moe) => Some(variant::NO_ROOM),
            () => None,
        };
        let (activations, held) = (self.t.activations, self.held());
        let asked = Asked {
            format: info.format,
            size: (m, k, self.shape.rows),
            gated,
            gates: false,
            beside: &beside,
            activations,
            held,
            rows: self.t.rows.filter(|rows| rows.moe).map(|rows| rows.asked),
        };
        variant::experts(self.t.caps, &asked, (c.k, c.n_expert), apart)
    }
}
