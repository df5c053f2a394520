//! The stages that are being added to a dispatch of the megakernel, and what they have made so far.

use super::{Dispatch, Megakernel, Product};
use crate::policy;
use pumex_plan::Val;
use pumex_shaders::stage::{self, Stage};

#[derive(Default)]
pub(super) struct Open {
    pub stages: Vec<Stage>,
    /// Formats of all stages, and of each.
    stems: Vec<&'static str>,
    pub stem_of: Vec<&'static str>,
    /// Format of products with gate and up in one.
    gated: Option<&'static str>,
    /// ActivationQuant and norm that are quantized.
    pub coded: Option<(u64, u64)>,
    /// Workgroup that comes after the last row.
    pub next: u32,
    /// Bytes that its stages send.
    pub sent: usize,
    /// The input of a router and of its experts, the norm's weights, and the messages with it and their epoch.
    pub routed: Option<(Val, u64, u64, u32)>,
    /// Where the logits of a router are, with their epoch, and what the weights of the experts add up to.
    pub logits: (u64, u32, f32),
    /// What the stages make, from which column on.
    pub made: Vec<(Val, usize)>,
    /// Stages before those that follow the last one that received.
    pub before: usize,
    /// It starts with parts of attention that the last dispatch before it leaves: that dispatch as it joins them itself.
    pub joins: Option<Dispatch>,
    /// The dispatches that it stands for.
    pub own: Vec<Dispatch>,
}

/// Makes a stage send messages of its values times a norm's weights, if there are any.
pub(super) fn send_messages(stage: &mut Stage, to: u64, weight: u64, epoch: u32) {
    stage.flags |= stage::SEND;
    (stage.messages_out, stage.factors_out, stage.epoch_out) = (to, weight, epoch);
}

/// Makes a stage send its values one by one.
pub(super) fn send_values(stage: &mut Stage, to: u64, epoch: u32) {
    stage.flags |= stage::SEND_VALUES;
    (stage.values, stage.values_epoch) = (to, epoch);
}

impl Open {
    pub fn new() -> Open {
        Open::default()
    }

    /// What starts with parts of attention that a dispatch leaves, which could join them itself.
    pub fn joining(alone: Dispatch) -> Open {
        Open { joins: Some(alone), ..Open::default() }
    }

    /// Stages that wait for what the ones before them make, but for a first one that joins.
    pub fn waits(&self) -> usize {
        self.stages.iter().filter(|stage| stage.flags & (stage::RECEIVE | stage::JOIN) == stage::RECEIVE).count()
    }

    /// The module that has all its formats.
    pub fn module(&self, k: &Megakernel) -> Option<&'static str> {
        k.module(&self.stems, self.gated)
    }

    /// Whether there is one that has another product's format, too.
    pub fn has_module_with(&self, k: &Megakernel, stem: &'static str, gated: bool) -> bool {
        let lead = if gated { Some(stem) } else { self.gated };
        let other = gated && self.gated.is_some_and(|s| s != stem);
        !other && k.module(&[self.stems.as_slice(), &[stem]].concat(), lead).is_some()
    }

    /// Adds a stage that received, and makes `out`.
    pub fn push(&mut self, stage: Stage, stem: &'static str, out: Val) {
        (self.next, self.before, self.coded) = (0, self.made.len(), None);
        self.stages.push(stage);
        self.note(stem, (out, 0));
    }

    /// Adds a product.
    pub fn push_product(&mut self, stage: Stage, stem: &'static str, p: &Product, own: Dispatch) {
        self.stages.push(stage);
        self.note(stem, (p.out, p.y_at));
        self.gated = if p.gate.is_some() { Some(stem) } else { self.gated };
        self.own.push(own);
    }

    /// The format of gate and up of experts.
    pub fn gates(&mut self, stem: &'static str) {
        self.gated = Some(stem);
    }

    fn note(&mut self, stem: &'static str, made: (Val, usize)) {
        self.stem_of.push(stem);
        self.made.push(made);
        if !stem.is_empty() && !self.stems.contains(&stem) {
            self.stems.push(stem);
        }
    }

    /// Whether a stage makes the value, or a part of it.
    pub fn has_made(&self, v: Val) -> bool {
        self.made.iter().any(|made| made.0 == v)
    }

    /// Whether rows of `out` were written by other workgroups than those that a product's rows are dealt to.
    pub fn made_by_others(&self, out: Val) -> bool {
        let elsewhere = |s: &Stage| s.first != 0 || s.flags & (stage::ADD | stage::SEND) == 0;
        self.made.iter().zip(&self.stages).any(|(made, s)| made.0 == out && elsewhere(s))
    }

    /// Whether the last stage makes all of `value`, of `len` elements.
    pub fn made_last(&self, value: Val, len: usize) -> bool {
        let last = self.made.last().zip(self.stages.last());
        let made = last.is_some_and(|(made, s)| *made == (value, 0) && s.m as usize == len);
        made && len.is_multiple_of(policy::MESSAGE)
    }

    /// Whether all stages since one received make all of `value`, of `len` elements, and nothing else.
    pub fn made_together(&self, value: Val, len: usize) -> bool {
        let last = self.made[self.before..].iter().zip(&self.stages[self.before..]);
        let sum: usize = last.clone().map(|(_, s)| s.m as usize).sum();
        last.clone().all(|(made, s)| made.0 == value && s.flags & (stage::ADD | stage::GATED) == 0) && sum == len
    }
}
