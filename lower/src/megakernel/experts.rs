//! Layers of experts as stages: the router, the choice, and the products of the experts chosen.

use super::open::{send_messages, send_values};
use super::{config, sent_bytes, Dispatch, Group};
use crate::policy;
use pumex_plan::{Gate, Norm, Op, Plan, Router, TopK, Val, Weight};
use pumex_shaders::kernels::MEGAKERNEL_MOE_FORMATS;
use pumex_shaders::stage::{self, Stage};

/// The experts of a model all of whose layers the megakernel can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Experts {
    pub top_k: TopK,
    /// Outputs of one's first products.
    pub ffn: usize,
}

impl Experts {
    /// Those of `plan`, with norms of `k` inputs.
    pub fn of(plan: &Plan, k: usize) -> Option<Experts> {
        let (mut found, mut gated, mut stems) = (None, None, Vec::new());
        for op in &plan.ops {
            let (parts, top_k, ffn) = match op {
                Op::GatedExperts { by, biases, .. } if *by != Gate::SILU || *biases != [None; 2] => return None,
                Op::ExpertsAdd { bias: Some(_), .. } => return None,
                Op::GatedExperts { top_k, gate, up, .. } => {
                    let (g, u) = (&plan.weights[gate.0], &plan.weights[up.0]);
                    let same = g.format.id == u.format.id && g.cols == k && gated.is_none_or(|s| s == g.format.stem);
                    gated = Some(g.format.stem).filter(|_| same);
                    gated?;
                    (vec![*gate], *top_k, g.rows / top_k.n_expert)
                }
                Op::ExpertsAdd { top_k, down, .. } => (vec![*down], *top_k, plan.weights[down.0].cols),
                Op::GatedMatMul { .. } => return None,
                Op::Route { scales, .. } if scales.iter().any(Option::is_some) => return None,
                Op::MatMul { parts, out, .. } if *out != plan.logits => {
                    let coded = |w: &Weight| plan.weights[w.0].format.block_len > 1; // not the router
                    (parts.iter().map(|p| p.weight).filter(coded).collect(), TopK { n_expert: 0, k: 0 }, 0)
                }
                _ => continue,
            };
            stems.extend(parts.iter().map(|w| plan.weights[w.0].format.stem));
            let experts = Experts { top_k, ffn };
            let whole =
                parts.iter().all(|w| ffn.is_multiple_of(plan.weights[w.0].format.block_len.max(policy::MESSAGE)));
            let same = found.is_none_or(|f: Experts| (f.top_k, f.ffn) == (top_k, ffn));
            if ffn > 0 && (!whole || !same) {
                return None;
            }
            found = if ffn > 0 { Some(experts) } else { found };
        }
        found.filter(|_| config::module(&MEGAKERNEL_MOE_FORMATS, &stems, gated).is_some())
    }

    /// Inputs of all second products.
    pub fn k(&self) -> usize {
        self.top_k.k * self.ffn
    }
}

/// A router and its choice.
pub(super) struct RouterStage {
    pub router: Router,
    pub top_k: TopK,
    pub scale: f32,
    pub logits: Val,
    pub out: Val,
}

impl Group<'_> {
    /// Adds a router and its choice, if the last stage makes its input; gives the dispatch back if it cannot.
    pub(super) fn router(&mut self, c: &RouterStage, own: Dispatch) -> Option<Dispatch> {
        let Router { x, norm, part } = c.router;
        let (info, experts) = (&self.plan.weights[part.weight.0], self.k.experts);
        let plain = info.format.stem == "f32" && part.bias.is_none() && info.cols == self.k.k[0];
        let ours = experts.is_some_and(|e| e.top_k == c.top_k);
        // Its experts must take the same messages: nothing outside the megakernel would know the choice.
        let theirs = |op: &Op| match op {
            Op::GatedExperts { x: of, norm: by, route, .. } if *route == c.out => (*of, *by) == (x, norm),
            _ => true,
        };
        let ours = ours && self.plan.ops.iter().all(theirs);
        let makes = self.open.as_ref().is_some_and(|open| open.made_last(x, info.cols));
        // Of all that the layer sends from here on.
        let room = self.can_send(3 * info.cols + c.top_k.n_expert + experts.map_or(0, |e| e.k()));
        if !(plain && ours && makes && room) {
            return Some(own);
        }
        let (norm_weight, matrix) = (self.weight(norm.map(|n| n.weight)), self.weight(Some(part.weight)));
        self.epoch += 3;
        let (values_epoch, messages_epoch, logits_epoch) = (self.epoch - 2, self.epoch - 1, self.epoch);
        let open = self.open.as_mut()?;
        let mut place = |values: usize| {
            let at = self.t.at.messages + open.sent as u64;
            open.sent += sent_bytes(values);
            at
        };
        let (values, messages, logits) = (place(info.cols), place(info.cols), place(c.top_k.n_expert));
        if let Some(last) = open.stages.last_mut() {
            send_values(last, values, values_epoch);
            send_messages(last, messages, norm_weight, messages_epoch);
        }
        open.routed = Some((x, norm_weight, messages, messages_epoch));
        open.logits = (logits, logits_epoch, c.scale);
        let stage = Stage {
            w: [matrix, 0, 0],
            norm: norm_weight,
            k: info.cols as u32,
            m: c.top_k.n_expert as u32,
            eps: norm.map_or(0.0, |n| n.eps),
            scale: part.scale,
            flags: stage::ROUTER | stage::RECEIVE | if norm.is_some() { stage::NORM } else { 0 },
            messages_in: values,
            messages_out: logits,
            epoch_in: values_epoch,
            epoch_out: logits_epoch,
            ..Stage::default()
        };
        open.push(stage, "", c.logits);
        open.own.push(own);
        self.due = false;
        None
    }

    /// Adds a layer's products of chosen experts, if what is open has the choice: gate and up, or down; gives the dispatch back
    /// if it cannot.
    pub(super) fn experts(
        &mut self,
        x: Val,
        norm: Option<Norm>,
        weights: &[Weight],
        out: Val,
        own: Dispatch,
    ) -> Option<Dispatch> {
        let Some(experts) = self.k.experts else { return Some(own) };
        let (info, gated) = (&self.plan.weights[weights[0].0], weights.len() == 2);
        let (stem, rows) = (info.format.stem, info.rows / experts.top_k.n_expert);
        let norm_weight = self.weight(norm.map(|n| n.weight));
        let w = [self.weight(weights.first().copied()), self.weight(weights.get(1).copied()), 0];
        let (y, epoch) = (self.val(out), self.epoch + 1);
        let Some(open) = self.open.as_mut() else { return Some(own) };
        let sent = match open.routed {
            Some((v, w, messages, epoch)) if gated && (v, w) == (x, norm_weight) => Some((messages, epoch)),
            Some(_) if !gated && open.made_last(x, experts.k()) => None,
            _ => return Some(own),
        };
        let (messages, epoch) = sent.unwrap_or((self.t.at.messages + open.sent as u64, epoch));
        if !gated {
            if let Some(last) = open.stages.last_mut() {
                send_messages(last, messages, 0, epoch);
            }
            open.sent += sent_bytes(experts.k());
            self.epoch = epoch;
        }
        let m = if gated { rows * experts.top_k.k } else { rows };
        let (logits, logits_epoch, scale) = open.logits;
        let kind = if gated { stage::GATED | stage::OF_CHOSEN } else { stage::OVER_CHOSEN | stage::ADD };
        let mut stage = Stage {
            w,
            y,
            k: info.cols as u32,
            m0: rows as u32,
            m01: m as u32,
            m: m as u32,
            eps: norm.map_or(0.0, |n| n.eps),
            flags: kind | stage::RECEIVE | if norm.is_some() { stage::NORM } else { 0 },
            messages_in: messages,
            epoch_in: epoch,
            ..Stage::default()
        }
        .with_scales([scale, 1.0, 1.0]);
        if gated {
            (stage.values, stage.values_epoch) = (logits, logits_epoch);
            open.gates(stem);
        } else {
            open.routed = None;
        }
        open.push(stage, stem, out);
        open.own.push(own);
        self.due = false;
        None
    }
}
