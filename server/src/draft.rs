//! A small model proposes what a large one may say; the large one checks several ids in a step.
//!
//! An id that is proposed stands where it is the very one that the large model's own chain chooses: answers are what they would be
//! without, greedy or not.

use pumex_gguf::{Error, Result};
use pumex_step::{Row, RowOutput, Runner, Ticket, Token};
use pumex_text::Tokenizer;

/// Ids of the vocabularies that are compared.
const COMPARED: u32 = 4096;

/// An answer for which ids are to be proposed.
pub struct Wish<'a> {
    /// Its slot.
    pub slot: usize,
    /// Tells it from others in the slot.
    pub serial: u64,
    /// All of its ids.
    pub ids: &'a [u32],
    /// Most ids.
    pub most: usize,
}

/// What the small model holds of a slot's answer.
#[derive(Clone, Debug, Default)]
struct DraftSequence {
    serial: u64,
    ids: Vec<u32>,
    /// So many of them are known to be the answer's.
    sure: usize,
}

/// A small model at work for a large one: a sequence for each slot.
pub struct DraftRunner<'r> {
    runner: &'r mut dyn Runner,
    held: Vec<DraftSequence>,
}

/// Refuses a small model whose ids mean something else.
///
/// # Errors
/// The first id that does, or vocabularies of other sizes.
pub fn check(large: &Tokenizer, small: &Tokenizer) -> Result<()> {
    let (a, b) = (large.n_vocab(), small.n_vocab());
    let differs = (0..COMPARED.min(a as u32)).find(|id| large.token_text(*id) != small.token_text(*id));
    match differs {
        _ if a.abs_diff(b) > 128 => {
            Err(Error::Request(format!("--model-draft: expected a vocabulary of {a} tokens, found {b}")))
        }
        Some(id) => {
            let text = |t: &Tokenizer| String::from_utf8_lossy(t.token_text(id)).into_owned();
            let (expected, found) = (text(large), text(small));
            Err(Error::Request(format!("--model-draft: token {id}: expected {expected:?}, found {found:?}")))
        }
        None => Ok(()),
    }
}

impl<'r> DraftRunner<'r> {
    /// On a runner with a sequence for each of so many slots.
    pub fn new(runner: &'r mut dyn Runner, slots: usize) -> DraftRunner<'r> {
        DraftRunner { runner, held: vec![DraftSequence::default(); slots] }
    }

    /// Positions that it may hold of an answer.
    pub fn n_ctx(&self) -> usize {
        self.runner.n_ctx()
    }

    /// Proposes ids behind those of each answer, by its largest logits.
    ///
    /// # Errors
    /// A failing runner.
    pub fn propose(&mut self, wishes: &[Wish<'_>]) -> Result<Vec<Vec<u32>>> {
        let mut out: Vec<Vec<u32>> = wishes.iter().map(|_| Vec::new()).collect();
        let from: Vec<usize> = wishes.iter().map(|wish| self.agree(wish)).collect();
        let last = self.catch_up(wishes, &from)?;
        // By sequence, as rows that give ids come in the order of wishes.
        let mut under_way: Option<(Ticket, Vec<usize>)> = last.map(|ticket| (ticket, (0..wishes.len()).collect()));
        let deepest = wishes.iter().map(|wish| wish.most).max().unwrap_or(0);
        for depth in 1..deepest {
            let deeper: Vec<usize> = (0..wishes.len()).filter(|i| wishes[*i].most > depth).collect();
            let row = |i: &usize| Row {
                seq: wishes[*i].slot as u32,
                pos: (wishes[*i].ids.len() + depth - 1) as u32,
                token: Token::Sampled,
                output: RowOutput::Id,
                medium: None,
            };
            let ticket = self.runner.start(&deeper.iter().map(row).collect::<Vec<_>>())?;
            if let Some((earlier, of)) = under_way.replace((ticket, deeper)) {
                self.read(earlier, &of, &mut out)?;
            }
        }
        if let Some((ticket, of)) = under_way {
            self.read(ticket, &of, &mut out)?;
        }
        for (wish, proposed) in wishes.iter().zip(&out) {
            let held = &mut self.held[wish.slot];
            held.sure = wish.ids.len();
            held.ids = Vec::new();
            held.ids.extend(proposed.iter().take(wish.most.saturating_sub(1)));
        }
        Ok(out)
    }

    fn read(&mut self, ticket: Ticket, of: &[usize], out: &mut [Vec<u32>]) -> Result<()> {
        let output = self.runner.finish(ticket)?;
        of.iter().zip(output.ids).for_each(|(i, id)| out[*i].push(id));
        Ok(())
    }

    /// Goes back to what it holds of an answer; gives how many ids that is.
    fn agree(&mut self, wish: &Wish<'_>) -> usize {
        let held = &mut self.held[wish.slot];
        if held.serial != wish.serial {
            *held = DraftSequence { serial: wish.serial, ..DraftSequence::default() };
        }
        let behind = wish.ids.get(held.sure..).unwrap_or_default();
        let same = held.sure + held.ids.iter().zip(behind).take_while(|(a, b)| a == b).count();
        // The last one gives the first proposal.
        let same = same.min(wish.ids.len().saturating_sub(1));
        self.runner.forget(wish.slot as u32, same as u32).min(same)
    }

    /// Feeds what it does not hold; the last step gives the first id of each.
    fn catch_up(&mut self, wishes: &[Wish<'_>], from: &[usize]) -> Result<Option<Ticket>> {
        let mut head = Vec::new();
        let mut tail = Vec::new();
        for (wish, from) in wishes.iter().zip(from) {
            let end = wish.ids.len() - 1;
            for (pos, id) in wish.ids.iter().enumerate().skip(*from) {
                let output = if pos == end { RowOutput::Id } else { RowOutput::None };
                let row = Row { seq: wish.slot as u32, pos: pos as u32, token: Token::Id(*id), output, medium: None };
                if pos == end { &mut tail } else { &mut head }.push(row);
            }
        }
        let most = self.runner.max_rows().max(1);
        let mut before: Option<Ticket> = None;
        // Few rows share the step that gives ids.
        if head.len() + tail.len() <= most {
            let mut rows = head;
            rows.extend(tail);
            rows.sort_by_key(|row| wishes.iter().position(|wish| wish.slot as u32 == row.seq));
            return match rows.is_empty() {
                true => Ok(None),
                false => self.runner.start(&rows).map(Some),
            };
        }
        for part in head.chunks(most) {
            let ticket = self.runner.start(part)?;
            if let Some(earlier) = before.replace(ticket) {
                self.runner.finish(earlier)?;
            }
        }
        if let Some(earlier) = before {
            self.runner.finish(earlier)?;
        }
        self.runner.start(&tail).map(Some)
    }
}
