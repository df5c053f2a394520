//! A plan in parts, so that each can run on a device of its own: in two at a layer, or in a chain of runs of ops. What goes over
//! is one row of numbers for each row of the step: a part gives it as its logits, the next takes it from a table that the host
//! fills. Where more than that would have to go over, there is no cut, and neighbours go along.

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
        let cut = self.first_op(layer)?;
        let over = self.crossings()[cut]?;
        let mut parts = self.split_at(&[(cut, over)], max_rows).into_iter();
        Some((parts.next()?, parts.next()?))
    }

    /// The first op that reads a weight of the layer.
    pub fn first_op(&self, layer: usize) -> Option<usize> {
        let names = [format!("blk.{layer}."), format!("enc.blk.{layer}.")];
        let of_layer = |w: &Weight| names.iter().any(|name| self.weights[w.0].name.starts_with(name));
        self.ops.iter().position(|op| op.weights().iter().any(of_layer))
    }

    /// Runs of ops that each go to one of two devices, in order: `there` says which ops must go to the second. Ops that no cut
    /// parts from such a one go with it. Each has whether it goes there.
    pub fn segments(&self, there: impl Fn(usize, &Op) -> bool, max_rows: usize) -> Vec<(bool, Plan)> {
        let over = self.crossings();
        let mut runs: Vec<(usize, bool)> = Vec::new(); // where each starts
        for (i, op) in self.ops.iter().enumerate() {
            if over[i].is_some() || i == 0 {
                runs.push((i, false));
            }
            if let Some((_, goes)) = runs.last_mut() {
                *goes |= there(i, op);
            }
        }
        runs.dedup_by_key(|(_, goes)| *goes);
        let cuts: Vec<_> = runs.iter().skip(1).filter_map(|(at, _)| Some((*at, over[*at]?))).collect();
        runs.iter().map(|(_, goes)| *goes).zip(self.split_at(&cuts, max_rows)).collect()
    }

    /// Plans between cuts, each before an op and with the value that goes over there. All but the last give theirs as logits.
    fn split_at(&self, cuts: &[(usize, Val)], max_rows: usize) -> Vec<Plan> {
        let bounds: Vec<_> = [None].into_iter().chain(cuts.iter().copied().map(Some)).chain([None]).collect();
        let part = |ends: &[Option<(usize, Val)>]| {
            let (from, to) = (ends[0].map_or(0, |c| c.0), ends[1].map_or(self.ops.len(), |c| c.0));
            let mut plan = Plan { ops: self.ops[from..to].to_vec(), ..self.clone() };
            if let Some((_, x)) = ends[0] {
                let (cols, format) = (self.values[x.0].width, pumex_quant::FormatId::F32.format());
                plan.weights.push(WeightInfo { name: "rows".into(), tensor: FROM_HOST, rows: max_rows, cols, format });
                plan.ops.insert(0, Op::Embed { weight: Weight(plan.weights.len() - 1), instead: None, out: x });
            }
            if let Some((_, x)) = ends[1] {
                (plan.logits, plan.n_vocab) = (x, self.values[x.0].width);
                plan.ops.push(Op::Sample { logits: x });
            }
            plan.keep_what_is_used();
            plan
        };
        bounds.windows(2).map(part).collect()
    }

    /// By op, the one value that it and those after it read of what is written before, if it is one of all rows and no state
    /// goes over.
    fn crossings(&self) -> Vec<Option<Val>> {
        if self.encoder.is_some() {
            return vec![None; self.ops.len()]; // a step takes ops of one part alone
        }
        let value = |access: Access| if let Access::Value(v) = access { Some(v) } else { None };
        let state = |access: &Access| if let Access::State(layer) = access { Some(*layer) } else { None };
        let mut open = vec![false; self.ops.len()]; // a state that is read from here on is written before
        let mut first = vec![None; self.layers.len()];
        for (i, op) in self.ops.iter().enumerate() {
            for layer in [op.reads(), op.writes()].concat().iter().filter_map(state) {
                open[*first[layer].get_or_insert(i) + 1..=i].fill(true);
            }
        }
        // What is handed over takes the place of ids.
        let by_id = |op: &Op| matches!(op, Op::General(g) if g.reads_ids());
        if let Some(last) = self.ops.iter().rposition(by_id) {
            open[..=last].fill(true);
        }
        let mut live = HashSet::new();
        let mut over = vec![None; self.ops.len()];
        for (i, op) in self.ops.iter().enumerate().rev() {
            let written: HashSet<Val> = op.writes().into_iter().filter_map(value).collect();
            live.retain(|v| !written.contains(v));
            live.extend(op.reads().into_iter().filter_map(value));
            let one = live.iter().next().filter(|_| live.len() == 1 && !open[i]);
            over[i] = one.copied().filter(|v| self.values[v.0].rows == Rows::Step);
        }
        over
    }

    /// The plan up to what the product that gives logits takes: rows of the last norm in their place; of a plan with an encoder,
    /// those of the encoder. A plan that gives embeddings stays as it is.
    #[must_use]
    pub fn embedding(mut self) -> Plan {
        if let Some(encoder) = self.encoder {
            let mut alone = self.encoder_alone(encoder);
            alone.keep_what_is_used();
            return alone;
        }
        if self.embeds {
            return self;
        }
        let head = self.ops.iter().position(|op| matches!(op, Op::MatMul { out, .. } if *out == self.logits));
        let Some(Op::MatMul { x, norm: None, .. }) = head.map(|at| &self.ops[at]) else { return self };
        let (x, at) = (*x, head.unwrap_or(0));
        self.ops.truncate(at);
        self.ops.push(Op::Sample { logits: x });
        self.logits = x;
        self.n_vocab = self.values[x.0].width;
        self.keep_what_is_used();
        self
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
    pub fn weights(&self) -> Vec<Weight> {
        self.clone().weights_mut().into_iter().map(|w| *w).collect()
    }

    /// Every weight that the op reads, to be changed.
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
            Op::GatedExperts { norm, gate, up, biases, .. } => {
                all.push(norm.as_mut().map(|n| &mut n.weight));
                all.extend([Some(gate), Some(up)]);
                all.extend(biases.iter_mut().map(Option::as_mut));
            }
            Op::ExpertsAdd { down, bias, .. } => all.extend([Some(down), bias.as_mut()]),
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
