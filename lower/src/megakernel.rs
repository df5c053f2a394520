//! The megakernel: the ops of one row as stages of one persistent dispatch, with a workgroup for each multiprocessor. What a
//! stage makes, workgroups send each other through memory as flagged messages: every 16 bytes carry an epoch that says that
//! they are new. See `shaders/glsl/lib/megakernel.glsl`.
//!
//! Dispatches that it does not take run as they would without it.
//!
//! Vulkan does not promise that all workgroups run, so a trial shows it at the start; one that waits too long gives up, and the
//! steps in flight are done again without it (`engine/replay.rs`).

mod attention;
mod config;
mod experts;
mod open;

use super::dispatch::{Access, Dispatch, Place, Push};
use super::product::Product;
use super::{slabs, Shape, Target, Task};
use crate::policy;
pub use config::{Megakernel, MegakernelOptions};
use open::Open;
use pumex_plan::{AttentionSpec, Norm, Placement, Plan, RopeNorm, Router, TopK, Val, Weight};
use pumex_shaders::block::Block;
use pumex_shaders::push;
use pumex_shaders::stage::{self, Stage};
use std::collections::VecDeque;

/// Epochs of a step: those of what it sends are above where they start, by less than this.
pub const EPOCHS: u32 = 1 << 10;
/// Epochs that a layer takes from one place where it may leave the megakernel to the next, at most.
const MOST_EPOCHS: u32 = 8;

/// What a dispatch of one row does, for the megakernel to do it instead.
pub(super) enum StageSource {
    /// GEMV.
    Product(Product),
    /// Attention that rotates, split into parts where it is a dispatch.
    Attention { qkv: Val, rope: RopeNorm, spec: AttentionSpec, scale: f32, out: Val, parts: u32 },
    /// A router and its choice.
    Router { router: Router, top_k: TopK, scale: f32, logits: Val, out: Val },
    /// Products with gate and up of the chosen experts, or with down.
    Experts { x: Val, norm: Option<Norm>, weights: Vec<Weight>, out: Val },
}

/// Bytes that a sender of so many values takes, at most.
fn sent_bytes(values: usize) -> usize {
    (8 * values).next_multiple_of(256)
}

/// Groups tasks into dispatches of the megakernel, or leaves their own. Stages are appended to `words`.
pub(super) fn group(
    kernel: &Megakernel,
    t: &Target<'_>,
    (plan, places, shape): (&Plan, &Placement, Shape),
    tasks: Vec<Task>,
    words: &mut Vec<u32>,
) -> Vec<Dispatch> {
    let barriers = places.barriers(plan);
    let mut group =
        Group { k: kernel, t, plan, places, shape, open: None, words, epoch: 0, due: false, out: Vec::new() };
    let (mut tasks, mut last) = (VecDeque::from(tasks), None);
    while let Some(task) = tasks.pop_front() {
        group.due |= last != Some(task.op) && barriers[task.op];
        last = Some(task.op);
        group.task(task, tasks.front());
    }
    group.end();
    group.out
}

/// What is being grouped.
struct Group<'a> {
    k: &'a Megakernel,
    t: &'a Target<'a>,
    plan: &'a Plan,
    places: &'a Placement,
    shape: Shape,
    open: Option<Open>,
    words: &'a mut Vec<u32>,
    /// Epochs that messages of the step have so far.
    epoch: u32,
    /// What comes next must wait for what came before, by a barrier or by messages.
    due: bool,
    out: Vec<Dispatch>,
}

impl Group<'_> {
    fn task(&mut self, mut task: Task, next: Option<&Task>) {
        let (Some(source), 1) = (task.source.take(), task.dispatches.len()) else { return self.leave(task.dispatches) };
        let own = task.dispatches.remove(0);
        if own.constants.iter().any(|(name, _)| *name == slabs::ROWS) {
            return self.leave(vec![own]);
        }
        let left = match source {
            StageSource::Product(p) if self.k.takes(self.t, (self.plan, self.shape), &p) => self.product(p, own),
            StageSource::Product(_) => Some(own),
            StageSource::Attention { qkv, rope, spec, scale, out, parts } => {
                let taken = attention::Taken { qkv, rope, spec, scale, out };
                match self.attend(&taken, own) {
                    Some(own) if self.joins_later(&taken, parts, task.op, next) => {
                        self.attend_and_join(&taken, parts, own)
                    }
                    left => left,
                }
            }
            StageSource::Router { router, top_k, scale, logits, out } => {
                self.router(&experts::RouterStage { router, top_k, scale, logits, out }, own)
            }
            StageSource::Experts { x, norm, weights, out } => self.experts(x, norm, &weights, out, own),
        };
        self.leave(left.into_iter().collect());
    }

    /// Adds dispatches as they are, after what is open.
    fn leave(&mut self, dispatches: Vec<Dispatch>) {
        if dispatches.is_empty() {
            return;
        }
        self.end();
        self.due = false;
        self.out.extend(dispatches);
    }

    fn val(&self, v: Val) -> u64 {
        self.t.at.arena + self.places.offsets[v.0]
    }

    fn weight(&self, w: Option<Weight>) -> u64 {
        w.map_or(0, |w| self.t.at.weights[w.0])
    }

    /// Whether there is room for what so many values take that a stage sends.
    fn can_send(&self, values: usize) -> bool {
        let room = self.open.as_ref().is_some_and(|open| open.sent + sent_bytes(values) <= self.k.room);
        self.epoch + MOST_EPOCHS < EPOCHS && room
    }

    /// Adds a product; gives its dispatch back if it cannot.
    fn product(&mut self, p: Product, own: Dispatch) -> Option<Dispatch> {
        let Push::Gemv(gemv) = &own.push else { return Some(own) };
        let gemv = *gemv;
        let info = &self.plan.weights[p.parts[0].weight.0];
        let (stem, cols) = (info.format.stem, info.cols);
        if self.open.as_ref().is_some_and(|open| !open.has_module_with(self.k, stem, p.gate.is_some())) {
            self.end();
        }
        let due = self.due;
        let coded = self.open.as_ref().is_some_and(|open| !due && open.coded == Some((gemv.x, gemv.norm)));
        let receives =
            !coded && self.can_send(cols) && self.open.as_ref().is_some_and(|open| open.made_last(p.x, cols));
        // What workgroups wait for is what the last stage made; all else they can have only from an earlier dispatch.
        let apart = |open: &Open| !coded && !receives && (due || open.has_made(p.x));
        // What a stage adds to, its workgroups must have written themselves.
        let moved = |open: &Open| p.add && open.made_by_others(p.out);
        if self.open.as_ref().is_some_and(|open| apart(open) || moved(open)) {
            self.end();
            self.due = true;
            return self.product(p, own);
        }
        self.due = false;
        let open = self.open.get_or_insert_with(Open::new);
        let mut messages = 0;
        if let (true, Some(last)) = (receives, open.stages.last_mut()) {
            self.epoch += 1;
            messages = self.t.at.messages + open.sent as u64;
            open::send_messages(last, messages, gemv.norm, self.epoch);
            open.sent += sent_bytes(cols);
            (open.next, open.before) = (0, open.made.len());
        }
        let odd = gemv.flags > 0 || p.parts.iter().any(|p| p.scale != 1.0);
        let flags = [
            (p.gate.is_some(), stage::GATED),
            (p.add, stage::ADD),
            (p.norm.is_some(), stage::NORM),
            (receives, stage::RECEIVE),
            (!coded && !receives, stage::QUANTIZE),
            (cols != self.k.k[0], stage::SECOND_K),
            (odd, stage::ODD),
        ];
        let stage = Stage {
            w: [gemv.w0, gemv.w1, gemv.w2],
            b: [gemv.b0, gemv.b1, gemv.b2],
            x: gemv.x,
            y: gemv.y,
            norm: gemv.norm,
            k: gemv.k,
            m0: gemv.m0,
            m01: gemv.m01,
            m: gemv.m,
            eps: gemv.eps,
            first: open.next,
            flags: flags.iter().filter(|(set, _)| *set).fold(gemv.flags, |all, (_, bit)| all | bit),
            messages_in: messages,
            epoch_in: self.epoch,
            ..Stage::default()
        };
        open.push_product(stage.with_scales([gemv.s0, gemv.s1, gemv.s2]), stem, &p, own);
        open.coded = Some((gemv.x, gemv.norm));
        open.next = (open.next + gemv.m.div_ceil(policy::MESSAGE as u32)) % self.k.tile.groups;
        None
    }

    /// Adds the dispatch of what is open, if anything is.
    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Some(module) = open.module(self.k) else { return };
        if open.waits() < policy::MEGAKERNEL_LEAST_WAITS {
            if let (Some(alone), Some(last)) = (open.joins, self.out.last_mut()) {
                *last = alone;
            }
            self.out.extend(open.own);
            return;
        }
        let program = self.t.at.words + 4 * self.words.len() as u64;
        let stages = open.stages.len() as u32;
        for (mut stage, stem) in open.stages.into_iter().zip(&open.stem_of) {
            let second = !stem.is_empty() && !module.starts_with(stem);
            stage.flags |= if second { stage::SECOND_FORMAT } else { 0 };
            self.words.extend(stage.words());
        }
        let at = self.t.at;
        let (params, gave_up, fault, tables) = (at.params, at.gave_up, at.fault, at.codebooks);
        let push = push::Megakernel { program, params, gave_up, fault, stages, tables };
        let all = |get: fn(&Dispatch) -> &Vec<Access>| open.own.iter().flat_map(get).cloned().collect::<Vec<_>>();
        let (mut reads, mut writes) = (all(|d| &d.reads), all(|d| &d.writes));
        reads.extend(open.joins.map(|_| Access::all(Place::AttentionParts, 0)));
        writes.extend([Access::all(Place::Messages, open.sent as u64), Access::all(Place::AttentionParts, 0)]);
        self.out.push(Dispatch {
            op: open.own.last().map_or(0, |d| d.op),
            kernel: self.k.kernel(),
            format: Some(module),
            constants: self.k.constants(module, self.t.soa, self.shape.parts != 1),
            push: push.into(),
            grid: [self.k.tile.groups, 1, 1],
            reads,
            writes,
            query: None,
        });
    }
}
