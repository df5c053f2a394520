//! The runner's sequences: at work, kept for their beginnings, or free.

use super::prefix::{PrefixOwner, Prefixes};
use pumex_step::{Runner, PIECE};

/// What a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Work,
    /// An answer that is over; a step of it may be under way.
    Leaving,
    Kept,
}

/// Ids that a sequence holds, for others to share.
#[derive(Clone, Copy, Debug)]
pub struct SharedIds<'a> {
    /// All of them, in order.
    pub ids: &'a [u32],
    /// How many of the first ones steady requests may go on from.
    pub steady: usize,
}

/// A prompt that looks for a sequence to go on from.
#[derive(Clone, Copy, Debug)]
pub struct PrefixSearch<'a> {
    /// Whose sequences count.
    pub owner: &'a PrefixOwner,
    /// A slot whose sequence counts too, if it is of the same key.
    pub slot: Option<usize>,
    /// The prompt's ids.
    pub ids: &'a [u32],
    /// Whether the request is steady: it goes on where pieces of prompts begin.
    pub steady: bool,
}

/// All of them.
pub struct Seqs {
    uses: Vec<Use>,
    prefixes: Prefixes,
    /// By slot, the sequence that its last answer left.
    left: Vec<Option<u32>>,
}

impl Seqs {
    /// So many sequences for so many slots.
    pub fn new(n: usize, slots: usize) -> Seqs {
        Seqs { uses: vec![Use::Free; n], prefixes: Prefixes::default(), left: vec![None; slots] }
    }

    /// The ids that an idle slot holds.
    pub fn slot(&self, slot: usize) -> (Option<u32>, &[u32]) {
        let seq = self.left.get(slot).copied().flatten();
        (seq, seq.map_or(&[], |seq| self.prefixes.ids(seq)))
    }

    /// The sequence of an idle slot, if what it holds is of a user whose key is that of `owner`.
    pub fn slot_of(&self, slot: usize, owner: &PrefixOwner) -> Option<u32> {
        let seq = self.slot(slot).0?;
        let of = self.prefixes.owner(seq)?;
        of.has_key_of(owner).then_some(seq)
    }

    /// Such a sequence, if requests of `owner` can go on from it.
    fn usable_slot(&self, slot: usize, owner: &PrefixOwner) -> Option<u32> {
        self.slot_of(slot, owner).filter(|seq| self.prefixes.owner(*seq).is_some_and(|of| of.is_scaled_as(owner)))
    }

    /// The scales of adapters with which a kept sequence was computed; none where all were 0.
    pub fn scales(&self, seq: u32) -> Vec<f32> {
        self.prefixes.owner(seq).map_or_else(Vec::new, PrefixOwner::scales)
    }

    /// The idle slot among these whose content has most of an owner's `ids`; else the one whose content is the oldest.
    pub fn best_slot(&self, mut idle: impl Iterator<Item = usize>, owner: &PrefixOwner, ids: &[u32]) -> Option<usize> {
        let first = idle.next()?;
        let common = |slot: usize| self.usable_slot(slot, owner).map_or(0, |seq| self.prefixes.common(seq, ids));
        let empty = |slot: usize| self.slot(slot).0.is_none();
        let better = |best: usize, slot: usize| {
            let (a, b) = (common(best), common(slot));
            if b > a || (a == b && empty(slot) && !empty(best)) {
                slot
            } else {
                best
            }
        };
        Some(idle.fold(first, better))
    }

    /// A sequence of which the first ids are those of a prompt, and how many: of what an owner's sequences hold, or a slot of another user
    /// of the same key, and of those that the runner can go on from there. At least one id of the prompt is left to be computed.
    pub fn find_prefix(&self, runner: &dyn Runner, search: PrefixSearch<'_>) -> Option<(u32, usize)> {
        let PrefixSearch { owner, slot, ids, steady } = search;
        let most = ids.len().saturating_sub(1);
        // Steady requests go on where pieces of prompts begin.
        let use_of = |seq: u32, n: usize| match steady {
            true => n.min(self.prefixes.steady(seq)).min(most) / PIECE * PIECE,
            false => n.min(most),
        };
        let can = |seq: u32, n: usize| use_of(seq, n) > 0 && runner.can_cut(seq, use_of(seq, n) as u32);
        let best = self.prefixes.best(owner, ids, can);
        let held = slot.and_then(|slot| self.usable_slot(slot, owner)).map(|seq| (seq, self.prefixes.common(seq, ids)));
        let held = held.filter(|(seq, n)| can(*seq, *n) && best.is_none_or(|(_, most)| *n >= most));
        held.or(best).map(|(seq, n)| (seq, use_of(seq, n))).filter(|(_, n)| *n > 0)
    }

    /// How many first ids of a prompt some sequence of an owner has, whether or not the runner can go on from there.
    pub fn longest_prefix(&self, owner: &PrefixOwner, ids: &[u32]) -> usize {
        self.prefixes.best(owner, ids, |_, _| true).map_or(0, |(_, n)| n)
    }

    /// Keeps what a sequence at work holds now for models that cannot go back there once it has gone on.
    pub fn checkpoint(&mut self, runner: &mut dyn Runner, seq: u32, owner: &PrefixOwner, held: SharedIds<'_>) {
        let Some(spare) = self.take(runner, &[seq]) else { return };
        match runner.fork(seq, spare, held.ids.len() as u32) {
            Ok(()) => self.keep(runner, spare, owner, None, held),
            Err(_) => self.free(runner, spare),
        }
    }

    /// The ids of a sequence that is kept or offered.
    pub fn ids(&self, seq: u32) -> &[u32] {
        self.prefixes.ids(seq)
    }

    /// Kept sequences that hold beginnings of another one's, of the same owner, the longest first.
    pub fn beginnings(&self, seq: u32) -> Vec<u32> {
        let (owner, ids) = (self.prefixes.owner(seq), self.prefixes.ids(seq));
        let begins = |other: &u32| {
            let held = self.prefixes.ids(*other);
            *other != seq && !held.is_empty() && self.prefixes.owner(*other) == owner && ids.starts_with(held)
        };
        let kept = (0..self.uses.len() as u32).filter(|other| self.uses[*other as usize] == Use::Kept);
        let mut found: Vec<u32> = kept.filter(begins).collect();
        found.sort_by_key(|other| std::cmp::Reverse(self.prefixes.ids(*other).len()));
        // One of each length.
        found.dedup_by_key(|other| self.prefixes.ids(*other).len());
        found.retain(|other| self.prefixes.ids(*other).len() < ids.len());
        found
    }

    /// A free sequence; what was of no use for longest goes for it. None if all are at work.
    pub fn take(&mut self, runner: &mut dyn Runner, but: &[u32]) -> Option<u32> {
        let free = |seqs: &Seqs| seqs.uses.iter().position(|u| *u == Use::Free);
        if free(self).is_none() {
            self.evict(runner, but);
        }
        let seq = free(self)?;
        self.uses[seq] = Use::Work;
        Some(seq as u32)
    }

    /// Gives up what was kept and of no use for longest. False if nothing is kept.
    pub fn evict(&mut self, runner: &mut dyn Runner, but: &[u32]) -> bool {
        let oldest = self.prefixes.oldest(|seq| self.uses[seq as usize] == Use::Kept && !but.contains(&seq));
        oldest.into_iter().for_each(|seq| self.free(runner, seq));
        oldest.is_some()
    }

    /// A sequence holds nothing any more.
    pub fn free(&mut self, runner: &mut dyn Runner, seq: u32) {
        self.prefixes.remove(seq);
        runner.forget(seq, 0);
        self.uses[seq as usize] = Use::Free;
        self.left.iter_mut().filter(|left| **left == Some(seq)).for_each(|left| *left = None);
    }

    /// A sequence begins with these ids, for others to share.
    pub fn offer(&mut self, seq: u32, owner: &PrefixOwner, held: SharedIds<'_>) {
        self.prefixes.insert(seq, owner, held.ids.to_vec(), held.steady);
    }

    /// A sequence is not what it was.
    pub fn withdraw(&mut self, seq: u32) {
        self.prefixes.remove(seq);
    }

    /// An answer is over, and its last step may be under way: until [`Seqs::keep`].
    pub fn leave(&mut self, seq: u32) {
        self.uses[seq as usize] = Use::Leaving;
        self.prefixes.remove(seq);
    }

    /// A sequence stays, as what a slot holds, or none.
    pub fn keep(
        &mut self,
        runner: &mut dyn Runner,
        seq: u32,
        owner: &PrefixOwner,
        slot: Option<usize>,
        SharedIds { ids, steady }: SharedIds<'_>,
    ) {
        let held = runner.sequence_len(seq);
        if held == 0 || held > ids.len() {
            self.free(runner, seq);
            return;
        }
        self.uses[seq as usize] = Use::Kept;
        self.prefixes.insert(seq, owner, ids[..held].to_vec(), steady.min(held));
        if let Some(left) = slot.and_then(|slot| self.left.get_mut(slot)) {
            *left = Some(seq);
        }
    }

    /// A source was forked from: it is of use, or of none any more as the fork has all of it, unless it `stays` for those that cannot
    /// go back to it.
    pub fn note_fork(&mut self, runner: &mut dyn Runner, from: u32, n: usize, stays: bool) {
        let kept = self.uses[from as usize] == Use::Kept && !stays;
        if kept && n + 1 >= self.prefixes.ids(from).len() {
            self.free(runner, from);
        } else {
            self.prefixes.touch(from);
        }
    }

    /// Sequences that are kept.
    pub fn kept_count(&self) -> usize {
        self.uses.iter().filter(|u| **u == Use::Kept).count()
    }
}
