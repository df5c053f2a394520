//! Layers of experts in chains: the router, the choice, and the products of the experts chosen.

use super::{module, send_packets, send_values, sent_bytes, stage_of, words_of};
use super::{ADD, GATED, IN, IN_TAG, NORM, OF_CHOSEN, OVER_CHOSEN, RECEIVE, ROUTER, VALUES, VALUES_TAG};
use crate::engine::record::route::{Choice, Router};
use crate::engine::record::{Push, Writer};
use crate::plan::{Chosen, Op, Plan, Val, Weight};
use crate::policy;
use crate::Result;
use pumex_shaders::kernels::CHAINED_EXPERTS;

/// The experts of a model all of whose layers chains can do.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    pub(super) chosen: Chosen,
    /// Outputs of one's first products.
    pub(super) ffn: usize,
}

impl Experts {
    /// Those of `plan`, with norms of `k` inputs.
    pub(super) fn of(plan: &Plan, k: usize) -> Option<Experts> {
        let (mut found, mut gated, mut stems) = (None, None, Vec::new());
        for op in &plan.ops {
            let (parts, chosen, ffn) = match op {
                Op::GatedExperts { chosen, gate, up, .. } => {
                    let (g, u) = (&plan.weights[gate.0], &plan.weights[up.0]);
                    let same = g.format.id == u.format.id && g.cols == k && gated.is_none_or(|s| s == g.format.stem);
                    gated = Some(g.format.stem).filter(|_| same);
                    gated?;
                    (vec![*gate], *chosen, g.rows / chosen.experts)
                }
                Op::ExpertsAdd { chosen, down, .. } => (vec![*down], *chosen, plan.weights[down.0].cols),
                Op::GatedMatMul { .. } => return None,
                Op::Route { scales, .. } if scales.iter().any(Option::is_some) => return None,
                Op::MatMul { parts, out, .. } if *out != plan.logits => {
                    let coded = |w: &Weight| plan.weights[w.0].format.block_len > 1; // not the router
                    (parts.iter().map(|p| p.weight).filter(coded).collect(), Chosen { experts: 0, used: 0 }, 0)
                }
                _ => continue,
            };
            stems.extend(parts.iter().map(|w| plan.weights[w.0].format.stem));
            let experts = Experts { chosen, ffn };
            let whole =
                parts.iter().all(|w| ffn.is_multiple_of(plan.weights[w.0].format.block_len.max(policy::PACKET)));
            let same = found.is_none_or(|f: Experts| (f.chosen, f.ffn) == (chosen, ffn));
            if ffn > 0 && (!whole || !same) {
                return None;
            }
            found = if ffn > 0 { Some(experts) } else { found };
        }
        found.filter(|_| module(&CHAINED_EXPERTS, &stems, gated).is_some())
    }

    /// Inputs of all second products.
    pub(super) fn k(&self) -> usize {
        self.chosen.used * self.ffn
    }
}

impl Writer<'_, '_> {
    /// Adds a router and its choice to the chain, if the last stage makes its input.
    pub(in crate::engine::record) fn router_stage(&mut self, router: Router, c: &Choice<'_>) -> Result<bool> {
        let Some(chain) = self.b.chain else { return Ok(false) };
        let (info, norm) = (&self.b.plan.weights[router.part.weight.0], self.norms.get(&router.x).copied());
        let input = norm.map_or(router.x, |n| n.x);
        let plain = info.format.stem == "f32" && router.part.bias.is_none() && info.cols == chain.k[0];
        let ours = self.shape.rows == 1 && self.shape.chained && chain.experts.is_some_and(|e| e.chosen == c.chosen);
        // Its experts must take the same packets: nothing outside the chain would know the choice.
        let theirs = |op: &Op| match op {
            Op::GatedExperts { x, route, .. } if *route == c.out => *x == router.x,
            _ => true,
        };
        let ours = ours && self.b.plan.ops.iter().all(theirs);
        let makes = self.open.as_ref().is_some_and(|open| open.made_last(input, info.cols));
        // Of all that the layer sends from here on.
        let room = self.can_send(3 * info.cols + c.chosen.experts + chain.experts.map_or(0, |e| e.k()));
        if !(plain && ours && makes && room) {
            return Ok(false);
        }
        let (weight, eps) = (self.opt(norm.map(|n| n.weight)), norm.map_or(0.0, |n| n.eps));
        let matrix = self.weight(router.part.weight);
        self.tags += 3;
        let (values_tag, packets_tag, logits_tag) = (self.tags - 2, self.tags - 1, self.tags);
        let Some(open) = self.open.as_mut() else { return Ok(false) };
        let mut place = |values: usize| {
            let at = chain.sent.address() + open.sent as u64;
            open.sent += sent_bytes(values);
            at
        };
        let (values, packets, logits) = (place(info.cols), place(info.cols), place(c.chosen.experts));
        if let Some(last) = open.stages.last_mut() {
            send_values(last, values, values_tag);
            send_packets(last, packets, weight, packets_tag);
        }
        (open.routed, open.logits) = (Some((input, weight, packets, packets_tag)), (logits, logits_tag, c.scale));
        let push = Push::default().addr(matrix).addr(0).addr(0).addr(0).addr(0).addr(0).addr(0).addr(0).addr(weight);
        let push = push.word(info.cols).word(0).word(0).word(c.chosen.experts).float(eps).float(router.part.scale);
        let flags = ROUTER | RECEIVE | if norm.is_some() { NORM } else { 0 };
        let mut stage = stage_of(&push.word(0).word(0).word(0).word(flags as usize));
        stage[IN..IN + 2].copy_from_slice(&words_of(values));
        stage[super::OUT..super::OUT + 2].copy_from_slice(&words_of(logits));
        (stage[IN_TAG], stage[super::OUT_TAG]) = (values_tag, logits_tag);
        open.add(stage, "", c.logits);
        self.due = false;
        Ok(true)
    }

    /// Adds a layer's products of chosen experts to the chain, if that has the choice: gate and up, or down.
    pub(in crate::engine::record) fn experts_stage(
        &mut self,
        x: Val,
        weights: &[Weight],
        gated: bool,
        out: Val,
    ) -> Result<bool> {
        let (Some(chain), Some(experts)) = (self.b.chain, self.b.chain.and_then(|c| c.experts)) else {
            return Ok(false);
        };
        let info = &self.b.plan.weights[weights[0].0];
        let (stem, rows) = (info.format.stem, info.rows / experts.chosen.experts);
        let norm = self.norms.get(&x).copied();
        let (input, weight) = (norm.map_or(x, |n| n.x), self.opt(norm.map(|n| n.weight)));
        let (w0, w1) = (self.weight(weights[0]), weights.get(1).map_or(0, |w| self.weight(*w)));
        let y = self.val(out);
        let tag = self.tags + 1;
        let Some(open) = self.open.as_mut() else { return Ok(false) };
        let sent = match open.routed {
            Some((v, w, packets, tag)) if gated && (v, w) == (input, weight) => Some((packets, tag)),
            Some(_) if !gated && open.made_last(x, experts.k()) => None,
            _ => return Ok(false),
        };
        let (packets, tag) = sent.unwrap_or((chain.sent.address() + open.sent as u64, tag));
        if !gated {
            if let Some(last) = open.stages.last_mut() {
                send_packets(last, packets, 0, tag);
            }
            open.sent += sent_bytes(experts.k());
            self.tags = tag;
        }
        let m = if gated { rows * experts.chosen.used } else { rows };
        let push = Push::default().addr(w0).addr(w1).addr(0).addr(0).addr(0).addr(0).addr(0).addr(y).addr(0);
        let push = push.word(info.cols).word(rows).word(m).word(m).float(norm.map_or(0.0, |n| n.eps));
        let (logits, logits_tag, scale) = open.logits;
        let push = push.float(scale).float(1.0).float(1.0).word(0);
        let kind = if gated { GATED | OF_CHOSEN } else { OVER_CHOSEN | ADD };
        let flags = kind | RECEIVE | if norm.is_some() { NORM } else { 0 };
        let mut stage = stage_of(&push.word(flags as usize));
        stage[IN..IN + 2].copy_from_slice(&words_of(packets));
        stage[IN_TAG] = tag;
        if gated {
            stage[VALUES..VALUES + 2].copy_from_slice(&words_of(logits));
            stage[VALUES_TAG] = logits_tag;
            open.gated = Some(stem);
        } else {
            open.routed = None;
        }
        open.add(stage, stem, out);
        self.due = false;
        Ok(true)
    }
}
