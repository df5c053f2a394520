//! Attention as a stage: of a whole sequence or in parts; and a stage that joins the parts a dispatch has left.

use super::open::{send_values, Open};
use super::{sent_bytes, Dispatch, Group, Megakernel, Push, StageSource, Task, EPOCHS, MOST_EPOCHS};
use crate::dispatch::{Access, Place};
use crate::policy::MegakernelTile;
use crate::{policy, StateAt};
use pumex_plan::{AttentionSpec, Op, Plan, RopeNorm, RopeStyle, Val};
use pumex_shaders::stage::{self, Stage};

/// The heads of a model whose attention the megakernel can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attention {
    pub head_dim: usize,
    /// Query heads of a K/V head that a subgroup takes at once.
    pub pair: usize,
    /// Those that a workgroup takes of a sequence in parts: all of a K/V head, if it can.
    pub at_once: usize,
    /// Most parts of a sequence; 1 where a workgroup takes a head at a time.
    parts: u32,
}

impl Attention {
    pub fn of(plan: &Plan, tile: MegakernelTile, lanes: u32) -> Option<Attention> {
        let specs =
            || plan.ops.iter().filter_map(|op| if let Op::Attend { spec, .. } = op { Some(spec) } else { None });
        let head_dim = specs().next()?.head_dim;
        let alike = specs().all(|c| c.head_dim == head_dim && c.is_plain());
        if !alike || !policy::megakernel_attends(tile, lanes, head_dim) {
            return None;
        }
        let at_once = |c: &AttentionSpec| policy::megakernel_heads(tile, lanes, head_dim, c.heads / c.kv_heads);
        let teams = specs().map(|c| at_once(c).map(|h| c.heads / h)).collect::<Option<Vec<_>>>();
        let parts = teams.and_then(|t| t.into_iter().max()).map_or(1, |teams| policy::megakernel_parts(tile, teams));
        let at_once = specs().filter_map(at_once).max().unwrap_or(1);
        let pair = if specs().all(|c| (c.heads / c.kv_heads).is_multiple_of(2)) { 2 } else { 1 };
        Some(Attention { head_dim, pair, at_once: at_once.max(pair), parts })
    }

    /// Bytes of shared memory that it takes.
    pub fn bytes(&self, tile: MegakernelTile, lanes: u32) -> usize {
        policy::megakernel_attention_bytes(tile, lanes, self.head_dim, self.pair)
    }
}

/// Bytes that the parts of a layer's attention take, at most: two units of 16 for four values.
pub(super) fn parts_bytes(plan: &Plan) -> usize {
    let widths = plan.ops.iter().map(|op| if let Op::Attend { out, .. } = op { plan.values[out.0].width } else { 0 });
    widths.max().unwrap_or(0) * 8 * policy::MOST_ATTENTION_PARTS
}

impl Megakernel {
    /// Parts of a sequence of `len` positions in which attention is a stage; 0 where it is a dispatch.
    pub fn parts(&self, len: usize) -> u32 {
        let Some(a) = self.attention else { return 0 };
        match policy::megakernel_positions(a.head_dim, a.parts > 1) {
            (whole, _) if len <= whole => 1,
            (_, most) if len <= most => a.parts,
            _ => 0,
        }
    }
}

/// Attention that a stage may take.
pub(super) struct Taken {
    pub qkv: Val,
    pub rope: RopeNorm,
    pub spec: AttentionSpec,
    pub scale: f32,
    pub out: Val,
}

impl Group<'_> {
    /// Where the parts of attention go.
    fn parts_at(&self) -> u64 {
        self.t.at.messages + self.k.room as u64
    }

    /// Adds attention whose q, k and v the last stages make; gives its dispatch back if it cannot.
    pub(super) fn attend(&mut self, a: &Taken, own: Dispatch) -> Option<Dispatch> {
        let (Some(config), parts) = (self.k.attention, self.shape.parts) else { return Some(own) };
        let width = a.spec.qkv_width();
        let together = self.open.as_ref().is_some_and(|open| open.made_together(a.qkv, width));
        if parts == 0 || !together || !self.can_send(width) {
            return Some(own);
        }
        let at_once = if parts == 1 { 1 } else { (a.spec.heads / a.spec.kv_heads).min(config.at_once) };
        let StateAt { k, v, .. } = self.t.at.states[a.spec.layer];
        let inv_freq = self.t.at.ropes + 4 * self.plan.rope_at(a.rope.rope.table) as u64;
        let norms = [self.weight(a.rope.q_norm), self.weight(a.rope.k_norm), 0];
        let neox = if a.rope.rope.style == RopeStyle::Neox { stage::NEOX } else { 0 };
        let (y, parts_at) = (self.val(a.out), self.parts_at());
        let open = self.open.as_mut()?;
        self.due = false;
        self.epoch += 1;
        let values = self.t.at.messages + open.sent as u64;
        let makers = open.stages[open.before..].iter_mut().zip(&open.made[open.before..]);
        for (maker, (_, at)) in makers {
            send_values(maker, values + 8 * *at as u64, self.epoch);
        }
        let mut stage = Stage {
            w: [k, v, inv_freq],
            b: norms,
            y,
            k: a.spec.heads as u32,
            m0: a.spec.kv_heads as u32,
            m01: a.rope.rope.dims as u32,
            m: (a.spec.heads * a.spec.head_dim) as u32,
            eps: a.rope.rope.norm_eps,
            scale: a.scale,
            heads: at_once as u32,
            parts,
            flags: stage::ATTEND | stage::RECEIVE | neox,
            messages_in: values,
            epoch_in: self.epoch,
            ..Stage::default()
        };
        open.sent += sent_bytes(width);
        open.own.push(own);
        if parts == 1 {
            open.push(stage, "", a.out);
            return None;
        }
        self.epoch += 1;
        (stage.messages_out, stage.epoch_out) = (parts_at, self.epoch);
        open.push(stage, "", a.qkv);
        self.join(&a.spec, parts, a.out);
        None
    }

    /// Adds the joining of parts with the last epoch.
    fn join(&mut self, spec: &AttentionSpec, parts: u32, out: Val) {
        let stage = Stage {
            y: self.val(out),
            m: (spec.heads * spec.head_dim) as u32,
            flags: stage::JOIN | stage::RECEIVE,
            messages_in: self.parts_at(),
            epoch_in: self.epoch,
            parts,
            ..Stage::default()
        };
        if let Some(open) = self.open.as_mut() {
            open.push(stage, "", out);
        }
    }

    /// Whether the parts of attention that a dispatch of `parts` makes are better joined by the megakernel after it, whose first
    /// product takes them. One that attends to whole sequences joins none.
    pub(super) fn joins_later(&self, a: &Taken, parts: u32, op: usize, next: Option<&Task>) -> bool {
        let Some(Task { op: after, source: Some(StageSource::Product(p)), .. }) = next else { return false };
        let whole = matches!(&self.plan.ops[*after], Op::MatMul { parts, .. } if parts.len() == p.parts.len());
        let reads = *after == op + 1 && p.x == a.out && p.norm.is_none() && whole;
        let fits = a.spec.head_dim.is_multiple_of(policy::MESSAGE) && self.shape.parts != 1;
        let several = (2..=policy::MOST_ATTENTION_PARTS).contains(&(parts as usize));
        reads
            && fits
            && several
            && self.epoch + MOST_EPOCHS < EPOCHS
            && self.k.takes(self.t, (self.plan, self.shape), p)
    }

    /// Adds the dispatch, which leaves its parts, and starts a megakernel that joins them.
    pub(super) fn attend_and_join(&mut self, a: &Taken, parts: u32, mut own: Dispatch) -> Option<Dispatch> {
        let (parts_at, epoch) = (self.parts_at(), self.epoch + 1);
        let alone = own.clone();
        let Push::AttendFew(push) = &mut own.push else { return Some(own) };
        (push.partials, push.epoch) = (parts_at, epoch);
        own.constants.push(("LEAVES", 1));
        own.writes = vec![Access::all(Place::AttentionParts, 0), Access::all(Place::State(a.spec.layer), 0)];
        self.epoch = epoch;
        self.leave(vec![own]);
        self.due = false;
        self.open = Some(Open::joining(alone));
        self.join(&a.spec, parts, a.out);
        None
    }
}
