//! Inputs of a plan's products, for importance matrices: which columns' squares are summed.

use super::{General, Op, Plan, Rows, TopK, Val, Weight};
use pumex_step::Squares;

/// The input of a product, whose columns' squares say how much each of them matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The op.
    pub op: usize,
    /// `[n, k]`
    pub x: Val,
    /// Columns.
    pub cols: usize,
    /// The matrices it is multiplied with.
    pub weights: Vec<Weight>,
    /// If the matrices are those of experts: which rows they see.
    pub routed: Option<Routed>,
}

/// How rows reach experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// `[n, 4 * used]`
    pub route: Val,
    /// How many.
    pub top_k: TopK,
    /// Whether `x` has a row for each expert of a row, side by side, instead of one for all.
    pub per_expert_input: bool,
}

impl Input {
    /// Matrices in each weight.
    pub fn matrices(&self) -> usize {
        self.routed.map_or(1, |r| r.top_k.n_expert)
    }

    /// Floats of its sums `[matrices, cols]`, with a count for each matrix after them if rows are routed.
    pub fn floats(&self) -> usize {
        let counts = if self.routed.is_some() { self.matrices().next_multiple_of(4) } else { 0 };
        self.matrices() * self.cols + counts
    }
}

impl Plan {
    /// Inputs of all products that every row of a step passes, in order; the head is not among them.
    pub fn inputs(&self) -> Vec<Input> {
        let input = |(op, x, weights, routed): (usize, Val, Vec<Weight>, Option<Routed>)| {
            let cols = self.weights[weights[0].0].cols;
            Input { op, x, cols, weights, routed }
        };
        let product = |(i, op): (usize, &Op)| match op {
            Op::MatMul { x, parts, .. } => Some((i, *x, parts.iter().map(|p| p.weight).collect(), None)),
            Op::GatedMatMul { x, gate, up, .. } => Some((i, *x, vec![gate.weight, up.weight], None)),
            Op::GatedExperts { x, route, top_k, gate, up, .. } => {
                Some((i, *x, vec![*gate, *up], Some(Routed { route: *route, top_k: *top_k, per_expert_input: false })))
            }
            Op::ExpertsAdd { x, route, top_k, down, .. } => {
                Some((i, *x, vec![*down], Some(Routed { route: *route, top_k: *top_k, per_expert_input: true })))
            }
            Op::General(General::ExpertsMatMul(e)) => Some((
                i,
                e.x,
                vec![e.weight],
                Some(Routed { route: e.route, top_k: e.top_k, per_expert_input: e.own_input }),
            )),
            _ => None,
        };
        let all = self.ops.iter().enumerate().filter_map(product).map(input);
        all.filter(|input| self.values[input.x.0].rows == Rows::Step).collect()
    }

    /// The floats collected for `input`, told apart and named.
    pub fn squares(&self, input: &Input, mut floats: Vec<f32>) -> Squares {
        let mut counts = floats.split_off(input.matrices() * input.cols);
        counts.truncate(input.matrices());
        let names = input.weights.iter().map(|w| self.weights[w.0].name.clone()).collect();
        Squares { names, sums: floats, counts }
    }
}
