//! Sequences set aside to go back to: a recurrent state has only its last position, and a window has passed what came before it.
//!
//! A checkpoint is a fork, so it shares the blocks of all positions with the text that it is a beginning of, and what goes on from
//! it is what would come of computing that beginning anew. Whoever serves several texts gives each its own, or one to all.

use std::collections::VecDeque;

use pumex_gguf::Result;
use pumex_step::Runner;

/// A bounded number of checkpoints, each in a sequence of its runner that nobody else uses.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    free: Vec<u32>,
    /// Sequences and the ids that they hold, last used at the end.
    kept: VecDeque<(u32, Vec<u32>)>,
}

/// How many ids two texts begin with alike.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Checkpoints {
    /// Room for as many checkpoints as there are sequences given, all of which hold nothing.
    pub fn new(sequences: impl IntoIterator<Item = u32>) -> Checkpoints {
        Checkpoints { free: sequences.into_iter().collect(), kept: VecDeque::new() }
    }

    /// Whether there can be any.
    pub fn is_off(&self) -> bool {
        self.free.is_empty() && self.kept.is_empty()
    }

    /// The ids of each, last used at the end.
    pub fn texts(&self) -> impl Iterator<Item = &[u32]> {
        self.kept.iter().map(|(_, ids)| ids.as_slice())
    }

    /// Keeps the state of a sequence that holds `ids`, in place of the checkpoint that was used longest ago if need be.
    ///
    /// # Errors
    /// As [`Runner::fork`].
    pub fn keep(&mut self, runner: &mut dyn Runner, seq: u32, ids: &[u32]) -> Result<()> {
        if ids.is_empty() || self.is_off() {
            return Ok(());
        }
        if let Some(known) = self.kept.iter().position(|(_, kept)| kept == ids) {
            self.use_now(known);
            return Ok(());
        }
        if self.free.is_empty() {
            self.let_oldest_go(runner);
        }
        let Some(spare) = self.free.pop() else { return Ok(()) };
        if let Err(error) = runner.fork(seq, spare, ids.len() as u32) {
            self.free.push(spare);
            return Err(error);
        }
        self.kept.push_back((spare, ids.to_vec()));
        Ok(())
    }

    /// Makes a sequence that holds `held` one of the longest beginning of `wanted` that can be had without computing it. Gives its
    /// length.
    ///
    /// # Errors
    /// As [`Runner::fork`].
    pub fn resume(&mut self, runner: &mut dyn Runner, seq: u32, held: &[u32], wanted: &[u32]) -> Result<usize> {
        let same = common(held, wanted);
        let still = runner.forget(seq, same as u32).min(same);
        let longer = |(_, ids): &(u32, Vec<u32>)| ids.len() > still && wanted.starts_with(ids);
        let longest = (0..self.kept.len()).filter(|i| longer(&self.kept[*i])).max_by_key(|i| self.kept[*i].1.len());
        let Some(at) = longest else { return Ok(still) };
        let len = self.kept[at].1.len();
        runner.fork(self.kept[at].0, seq, len as u32)?;
        self.use_now(at);
        Ok(len)
    }

    /// Lets go of those that are no beginning of `ids`, and so of blocks that are of no other text.
    pub fn retain_beginnings(&mut self, runner: &mut dyn Runner, ids: &[u32]) {
        let (stay, go): (VecDeque<_>, VecDeque<_>) = self.kept.drain(..).partition(|(_, kept)| ids.starts_with(kept));
        self.kept = stay;
        for (seq, _) in go {
            runner.forget(seq, 0);
            self.free.push(seq);
        }
    }

    /// Lets go of the one that was used longest ago, for room in the cache; whether there was one.
    pub fn let_oldest_go(&mut self, runner: &mut dyn Runner) -> bool {
        let Some((seq, _)) = self.kept.pop_front() else { return false };
        runner.forget(seq, 0);
        self.free.push(seq);
        true
    }

    fn use_now(&mut self, at: usize) {
        let used = self.kept.remove(at);
        self.kept.extend(used);
    }
}
