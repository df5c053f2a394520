//! An encoder's ops as text, a line each, as `pumex explain --mmproj` prints them.

use super::{Arg, Graph, Op, Part, Val, Weight};

impl Graph {
    fn val(&self, val: Val) -> String {
        let view = self.view(val);
        format!("v{}[{}, {}]", val.0, view.rows, view.cols)
    }

    fn part(&self, part: Part) -> String {
        let whole = part.at == 0 && part.cols == self.view(part.val).cols;
        let columns = if whole { String::new() } else { format!("@{}+{}", part.at, part.cols) };
        self.val(part.val) + &columns
    }

    fn weight(&self, weight: Weight) -> String {
        let used = &self.weights[weight.0];
        format!("{}[{}, {}]", used.name, used.rows, used.cols)
    }

    /// Operands of an op: values, then weights.
    fn operands(&self, op: &Op) -> Vec<String> {
        let some = |weights: &[Option<Weight>]| -> Vec<String> {
            weights.iter().flatten().map(|weight| self.weight(*weight)).collect()
        };
        let with = |values: &[String], weights: &[Option<Weight>]| [values, &some(weights)[..]].concat();
        match op {
            Op::MatMul { x, weight, bias, .. } => with(&[self.part(*x)], &[Some(*weight), *bias]),
            Op::HeadProducts { a, b, heads, .. } => vec![self.part(*a), self.part(*b), format!("{heads} heads")],
            Op::Depthwise { x, weight, bias, .. } => with(&[self.val(*x)], &[Some(*weight), *bias]),
            Op::Norm { x, weight, bias, groups, .. } => {
                let each = (*groups > 1).then(|| format!("{groups} groups"));
                [with(&[self.part(*x)], &[*weight, *bias]), each.into_iter().collect()].concat()
            }
            Op::GlobalResponse { x, weight, bias, .. } => with(&[self.val(*x)], &[Some(*weight), Some(*bias)]),
            Op::Map { act, a, join, .. } => {
                let first = format!("{act:?} {}", self.part(*a));
                let second = join.as_ref().map(|(join, arg)| {
                    let arg = match arg {
                        Arg::Part(part) => self.part(*part),
                        Arg::Weight(weight) => self.weight(*weight),
                        Arg::Table(table) => format!("table {}", table.0),
                        Arg::Number(number) => number.to_string(),
                    };
                    format!("{join:?} {arg}")
                });
                [Some(first), second].into_iter().flatten().collect()
            }
            Op::Load { weight, .. } => vec![self.weight(*weight)],
            Op::Copy { x, row, col, .. } => vec![self.part(*x), format!("to row {row}, column {col}")],
            Op::Rotate { x, heads, at, dims, pairs, .. } => {
                vec![self.part(*x), format!("{heads} heads"), format!("columns {at} to {}, {pairs:?}", at + dims)]
            }
            Op::Attend { q, k, v, heads, kv_heads, spans, biases, sinks, .. } => {
                let heads = format!("{heads} heads on {kv_heads}");
                let parts = [*q, *k, *v].map(|part| self.part(part));
                let rules = [spans.map(|_| "spans".to_string()), (!biases.is_empty()).then(|| "biases".to_string())];
                [with(&parts, &[*sinks]), vec![heads], rules.into_iter().flatten().collect()].concat()
            }
            Op::Choose { x, bias, k, .. } => [with(&[self.val(*x)], &[*bias]), vec![format!("{k} of them")]].concat(),
            Op::Nearest { x, codes, values, .. } => [x, codes, values].map(|val| self.val(*val)).to_vec(),
            Op::Unfold { x, window, .. } => vec![self.val(*x), format!("windows of {:?}", window.kernel)],
            Op::Pick { x, .. } | Op::Permute { x, .. } | Op::Softmax { x, .. } => vec![self.val(*x)],
        }
    }

    /// An op as a line: `v7[64, 128] = matmul v6[64, 64], v.blk.0.ffn_up.weight[128, 64]`; values with rows and columns.
    pub fn line(&self, op: &Op) -> String {
        let out = match op {
            Op::MatMul { out, .. } | Op::Norm { out, .. } | Op::Map { out, .. } => self.part(*out),
            _ => self.val(op.output()),
        };
        format!("{out} = {} {}", op.name(), self.operands(op).join(", "))
    }
}
