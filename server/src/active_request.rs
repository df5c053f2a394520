//! An answer at work: what is fed, what is under way, and the row that it takes next.

use super::answer::Answer;
use super::request::Job;
use super::schedule::StepNeed;
use pumex_gguf::Result;
use pumex_serve::engine::Event;
use pumex_step::sample::{Allowed, SampleRequest, SamplerOptions};
use pumex_step::{piece_end, whole, Media, Row, RowOutput, Runner, Token};
use std::collections::VecDeque;
use std::time::Instant;

/// Most rows of a step of which something of the prompt is told.
const TOLD_ROWS: usize = 64;

/// How an answer's ids are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingMode {
    /// By the runner: the largest logit.
    Largest,
    /// By the runner.
    Sampled,
    /// By the runner, of what is allowed, which it is told while its step is under way.
    Told,
    /// By the runner, of what is allowed, which is known when the step starts.
    Allowed,
    /// On the host, of logits.
    Host,
}

impl SamplingMode {
    /// How ids of `answer` are chosen on `runner`.
    pub fn of(runner: &dyn Runner, answer: &Answer) -> SamplingMode {
        let options: &SamplerOptions = answer.sampler.options();
        let constrained = answer.is_constrained();
        if answer.after_chain {
            return SamplingMode::Host;
        }
        match runner.refuses(options) {
            _ if options.is_argmax() && !constrained => SamplingMode::Largest,
            Some(_) => SamplingMode::Host,
            None if !constrained => SamplingMode::Sampled,
            None if runner.allows_later() => SamplingMode::Told,
            None => SamplingMode::Allowed,
        }
    }

    /// Whether an id must be known before the next row.
    pub fn waits(self) -> bool {
        matches!(self, SamplingMode::Allowed | SamplingMode::Host)
    }
}

/// An answer at work in a slot.
pub struct ActiveAnswer {
    /// Tells it from all others that were in the slot.
    pub serial: u64,
    /// Number of its request.
    pub request: u64,
    /// The runner's sequence.
    pub seq: u32,
    /// The prompt, and what was chosen.
    pub ids: Vec<u32>,
    /// What some of them stand for.
    pub media: Media,
    /// Ids, the first ones, that are a source.
    pub source: usize,
    /// Positions that steps were started for.
    pub fed: usize,
    /// Where ids that are known begin to be the answer's: before, steps are a prompt's.
    pub prompt: usize,
    /// Ids that the request gave, where its steps are its own.
    pub steady: Option<usize>,
    /// Ids that steps under way will give.
    pub unread: usize,
    /// Ids, the first ones, that are of no use.
    pub skip: usize,
    /// Waits until the request's first answer has computed the prompt.
    pub parked: bool,
    /// The answer.
    pub answer: Answer,
    /// How ids are chosen.
    pub way: SamplingMode,
    /// Ids that a small model proposed behind the last, and that are not checked yet.
    pub draft: VecDeque<u32>,
    /// Whether a step under way checks some.
    pub checking: bool,
    /// Ids that were proposed, and those of them that stood.
    pub drafted: (usize, usize),
    /// Ids proposed last that stood.
    pub stood: usize,
    /// Positions at which what it holds is kept, in rising order, for which a step ends there.
    pub marks: VecDeque<usize>,
}

impl ActiveAnswer {
    /// Most ids that may be proposed: as many as leave one to be chosen behind them, of an answer that goes on by itself.
    pub fn wishes(&self, n_ctx: usize) -> usize {
        let goes_on = !self.parked && self.unread == 0 && self.fed + 1 == self.ids.len() && self.answer.generated > 0;
        // A device sees no ids that were chosen in the same step.
        let alone = self.way == SamplingMode::Sampled && self.answer.sampler.options().has_penalties()
            || !self.media.is_empty();
        // Ids that are checked share a step.
        if !goes_on || alone || self.steady.is_some() || self.answer.is_constrained() || self.answer.after_chain {
            return 0;
        }
        let left = self.answer.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.answer.generated + 1));
        left.min(n_ctx.saturating_sub(self.ids.len()))
    }

    /// What it could take into the next step. `gate`: of a prompt that several answers share, no rows from there on.
    pub fn need(&self, n_ctx: usize, gate: Option<usize>) -> StepNeed {
        if self.parked {
            return StepNeed::default();
        }
        let alone = self.steady.is_some();
        if self.fed < self.source {
            return StepNeed { rows: self.source, prompt: true, source: true, alone };
        }
        let known = self.ids.len().min(gate.unwrap_or(usize::MAX));
        let known = self.marks.front().map_or(known, |mark| known.min(*mark));
        if self.fed < known {
            let prompt = self.fed < self.prompt || known - self.fed > 1;
            let end = self.steady.map_or(known, |given| known.min(piece_end(self.fed, given)));
            // Each row that something is told of has logits of its own.
            let most = if self.reported_rows(1) > 0 { TOLD_ROWS } else { usize::MAX };
            return StepNeed { rows: (end - self.fed).min(most), prompt, source: false, alone };
        }
        let pending = self.unread - self.skip;
        let more = self.answer.limit.is_none_or(|limit| self.answer.generated + pending < limit);
        let goes = gate.is_none() && pending > 0 && !self.way.waits() && self.fed < self.ids.len() + pending;
        StepNeed { rows: usize::from(goes && more && self.fed < n_ctx), alone, ..StepNeed::default() }
    }

    /// Whether the context is full and all ids are read.
    pub fn is_full(&self, n_ctx: usize) -> bool {
        self.fed >= n_ctx && self.unread == 0 && !self.parked
    }

    /// What steps under way give is not of use any more. Whether they had more ids to check.
    pub fn reject(&mut self) -> bool {
        let more = self.unread - self.skip;
        if matches!(self.way, SamplingMode::Sampled | SamplingMode::Told | SamplingMode::Allowed) {
            (0..more).for_each(|_| self.answer.sampler.undo_request());
        }
        let checked = std::mem::take(&mut self.checking) && more > 0;
        self.skip = self.unread;
        self.draft.clear();
        checked
    }

    /// Its next `count` rows, without outputs.
    pub fn rows(&self, count: usize, rows: &mut Vec<Row>) {
        for pos in self.fed..self.fed + count {
            let known = self.ids.get(pos).or_else(|| self.draft.get(pos - self.ids.len()));
            let token = match known {
                Some(id) if pos < self.source => Token::Source(*id),
                Some(id) => Token::Id(*id),
                None => Token::Sampled,
            };
            rows.push(Row {
                seq: self.seq,
                pos: pos as u32,
                token,
                output: RowOutput::None,
                medium: self.media.row(pos),
            });
        }
    }

    /// How many of the next `count` rows a step may take without cutting rows that see each other: fewer, or all of these if they are
    /// the first. At most `most`.
    pub fn whole(&self, count: usize, most: usize) -> usize {
        let Some(row) = self.media.row(self.fed + count).filter(|row| row.index > 0 && row.of.sees_itself()) else {
            return count;
        };
        let (begin, end) =
            (self.fed + count - row.index as usize, self.fed + count - row.index as usize + row.of.rows());
        match begin > self.fed {
            true => begin - self.fed,
            false if end - self.fed <= most => end - self.fed,
            false => 0,
        }
    }

    /// How many of the ids that it holds other steady requests may go on from.
    pub fn shares(&self) -> usize {
        self.steady.map_or(0, |given| whole(self.fed.min(self.ids.len()), given))
    }

    /// How many of its next `count` rows, the last ones, give ids.
    pub fn outputs(&self, count: usize) -> usize {
        (self.fed + count + 1).saturating_sub(self.ids.len().max(self.fed + 1))
    }

    /// How many of its next `count` rows something is told of: they are the prompt's, and another id of it follows.
    pub fn reported_rows(&self, count: usize) -> usize {
        match self.answer.tells_prompt() {
            true => self.prompt.saturating_sub(self.fed + 1).min(count),
            false => 0,
        }
    }

    /// What its row gives, and which ids are allowed where that is known.
    ///
    /// # Errors
    /// A constraint that allows nothing.
    pub fn output(&mut self, runner: &dyn Runner, token: Token) -> Result<(RowOutput, Allowed)> {
        let ahead = token == Token::Sampled;
        Ok(match self.way {
            SamplingMode::Largest => (RowOutput::Id, Allowed::All),
            SamplingMode::Sampled => (RowOutput::Sample(self.answer.sampler.request(ahead)), Allowed::All),
            SamplingMode::Told => {
                let request = self.answer.sampler.request(ahead);
                (RowOutput::Sample(SampleRequest { allowed: Allowed::Later, ..request }), Allowed::Later)
            }
            SamplingMode::Allowed => {
                let allowed = self.answer.allowed_ids()?;
                let request = self.answer.sampler.request(ahead);
                (RowOutput::Sample(SampleRequest { allowed: allowed.clone(), ..request }), allowed)
            }
            SamplingMode::Host => {
                let allowed = self.answer.allowed_ids()?;
                let listed = runner.lists() && !self.answer.after_chain;
                let list = self.answer.sampler.shortlist(allowed.clone()).filter(|_| listed);
                (list.map_or(RowOutput::Logits, RowOutput::Shortlist), allowed)
            }
        })
    }
}

/// A request at work.
pub struct ActiveRequest {
    /// What it is, without its answers while they are at work.
    pub job: Job,
    /// Slots by answer, as they were at first.
    pub slots: Vec<usize>,
    /// Answers that are not over.
    pub left: usize,
    /// Events for which there is no room.
    pub outbox: VecDeque<Event>,
    /// When the reader took something last, while events wait.
    pub stalled: Option<Instant>,
    /// Rank of its admission: higher is younger.
    pub age: u64,
    /// For several answers, the positions of the prompt that the first computes for all; none once that is done.
    pub gate: Option<usize>,
    /// When the prompt was computed.
    pub prompt_done: Option<Instant>,
}

/// An output row of a step under way.
#[derive(Clone, Debug)]
pub struct PendingRow {
    /// The slot.
    pub slot: usize,
    /// Which answer was there.
    pub serial: u64,
    /// What is allowed.
    pub allowed: Allowed,
    /// What comes of it: an id alone, a list, logits.
    pub gives: Gives,
    /// The position of the prompt of which the row tells something; none: it gives the answer's next id.
    pub told: Option<usize>,
}

/// What an output row gives beside its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Gives {
    Id,
    List,
    Logits,
}

impl Gives {
    /// What a row with this output gives.
    pub fn of(output: &RowOutput) -> Gives {
        match output {
            RowOutput::Shortlist(_) => Gives::List,
            RowOutput::Logits => Gives::Logits,
            _ => Gives::Id,
        }
    }
}
