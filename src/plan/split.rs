//! A plan in two, at a layer, so that each part can run on a device of its own. What goes over is one row of numbers for each row
//! of the step: the first part gives it as its logits, the second takes it from a table that the host fills.

use super::{Access, LayerState, Op, Plan, Rows, Val, Weight, WeightInfo};
use std::collections::HashSet;

/// In place of a tensor's index: the weight is not in the file, the host fills it before each step.
pub const FROM_HOST: usize = usize::MAX;

impl WeightInfo {
    /// Whether the host fills it, instead of the file.
    pub fn is_from_host(&self) -> bool {
        self.tensor == FROM_HOST
    }
}

impl Plan {
    /// Token ids that rows may have.
    pub fn n_ids(&self) -> usize {
        let embed = self.ops.iter().find_map(|op| if let Op::Embed { weight, .. } = op { Some(*weight) } else { None });
        embed.map_or(self.n_vocab, |weight| self.weights[weight.0].rows)
    }

    /// The plan up to `layer`, and from it on, for steps of up to `max_rows` rows. None where more than one value goes over, or
    /// a layer reads the state of one on the other side.
    pub fn split(&self, layer: usize, max_rows: usize) -> Option<(Plan, Plan)> {
        let name = format!("blk.{layer}.");
        let of_layer = |op: &Op| op.clone().weights_mut().iter().any(|w| self.weights[w.0].name.starts_with(&name));
        let cut = self.ops.iter().position(of_layer)?;
        let (before, after) = self.ops.split_at(cut);
        let x = self.crossing(before, after)?;
        let width = self.values[x.0].width;
        let mut first = Plan { ops: before.to_vec(), n_vocab: width, logits: x, ..self.clone() };
        first.ops.push(Op::Sample { logits: x });
        let mut second = Plan { ops: after.to_vec(), ..self.clone() };
        let format = pumex_quant::find(0)?; // f32
        let table = WeightInfo { name: "rows".into(), tensor: FROM_HOST, rows: max_rows, cols: width, format };
        second.weights.push(table);
        second.ops.insert(0, Op::Embed { weight: Weight(second.weights.len() - 1), out: x });
        first.keep_what_is_used();
        second.keep_what_is_used();
        Some((first, second))
    }

    /// The one value that `after` reads of what `before` wrote, if it is one of all rows and no state goes over.
    fn crossing(&self, before: &[Op], after: &[Op]) -> Option<Val> {
        let states = |ops: &[Op]| -> HashSet<usize> {
            let all = ops.iter().flat_map(|op| [op.reads(), op.writes()].concat());
            all.filter_map(|access| if let Access::State(layer) = access { Some(layer) } else { None }).collect()
        };
        if !states(before).is_disjoint(&states(after)) {
            return None;
        }
        let (mut written, mut crossing) = (HashSet::new(), HashSet::new());
        for op in after {
            let read = op.reads().into_iter().filter_map(|a| if let Access::Value(v) = a { Some(v) } else { None });
            crossing.extend(read.filter(|v| !written.contains(v)));
            written
                .extend(op.writes().into_iter().filter_map(|a| if let Access::Value(v) = a { Some(v) } else { None }));
        }
        let mut all = crossing.into_iter();
        all.next().filter(|v| all.next().is_none() && self.values[v.0].rows == Rows::Step)
    }

    /// Leaves out weights that no op reads, and the states of layers that no op has.
    fn keep_what_is_used(&mut self) {
        let used: HashSet<usize> = self.ops.iter_mut().flat_map(Op::weights_mut).map(|w| w.0).collect();
        let mut at = vec![0; self.weights.len()];
        let mut kept = Vec::new();
        for (i, info) in self.weights.iter().enumerate().filter(|(i, _)| used.contains(i)) {
            at[i] = kept.len();
            kept.push(info.clone());
        }
        self.weights = kept;
        self.ops.iter_mut().flat_map(Op::weights_mut).for_each(|w| w.0 = at[w.0]);
        for (layer, state) in self.layers.iter_mut().enumerate() {
            if !self.ops.iter().any(|op| op.has_write(Access::State(layer))) {
                *state = LayerState::Nothing;
            }
        }
    }
}

impl Op {
    /// Every weight that the op reads.
    pub fn weights_mut(&mut self) -> Vec<&mut Weight> {
        let mut all: Vec<Option<&mut Weight>> = Vec::new();
        match self {
            Op::Embed { weight, .. } | Op::RmsNorm { weight, .. } => all.push(Some(weight)),
            Op::MatMul { norm, parts, .. } => {
                all.push(norm.as_mut().map(|n| &mut n.weight));
                all.extend(parts.iter_mut().flat_map(|p| [Some(&mut p.weight), p.bias.as_mut()]));
            }
            Op::GatedMatMul { norm, gate, up, .. } => {
                all.push(norm.as_mut().map(|n| &mut n.weight));
                all.extend([gate, up].into_iter().flat_map(|p| [Some(&mut p.weight), p.bias.as_mut()]));
            }
            Op::Route { router, scales, .. } => {
                if let Some(router) = router {
                    all.push(router.norm.as_mut().map(|n| &mut n.weight));
                    all.extend([Some(&mut router.part.weight), router.part.bias.as_mut()]);
                }
                all.extend(scales.iter_mut().map(Option::as_mut));
            }
            Op::GatedExperts { norm, gate, up, .. } => {
                all.push(norm.as_mut().map(|n| &mut n.weight));
                all.extend([Some(gate), Some(up)]);
            }
            Op::ExpertsAdd { down, .. } => all.push(Some(down)),
            Op::RopeKv { spec, rope, .. } => {
                all.extend([spec.sinks.as_mut(), rope.q_norm.as_mut(), rope.k_norm.as_mut()]);
            }
            Op::Attend { rope, spec, .. } => {
                all.push(spec.sinks.as_mut());
                all.extend(rope.iter_mut().flat_map(|r| [r.q_norm.as_mut(), r.k_norm.as_mut()]));
            }
            Op::General(g) => all.extend(g.weights_mut().into_iter().map(Some)),
            Op::Sample { .. } => {}
        }
        all.into_iter().flatten().collect()
    }
}
