//! What a session holds of its sequences, as plain data: blocks of the cache, sampled ids, steps in flight.
//!
//! Nothing here knows a device. Both interpreters of a plan keep their books with a [`Session`], so that they refuse the
//! same things: its [`BlockAllocator`] say which block holds which positions of which sequence. [`Steps`] says which steps are in
//! flight, and [`Recent`] which recordings are kept.

mod blocks;
mod media;
mod pool;
mod recent;
mod state_header;
mod steps;
mod stores;
mod table;

pub use blocks::{BlockAllocator, BlockCopy};
pub use media::PlacedMedium;
pub use pool::BlockPool;
pub use recent::Recent;
pub use state_header::StateHeader;
pub use steps::Steps;
pub use stores::Stores;
pub use table::{BlockTable, PositionSpan, Rule, RING_BACK};

use pumex_gguf::{Error, Result};
use pumex_step::{CheckedStep, Limits, Row, Token};

pub use pumex_plan::KV_BLOCK;

/// The books of one session: what its sequences hold, and which of them have a sampled id.
#[derive(Clone, Debug)]
pub struct Session {
    limits: Limits,
    blocks: BlockAllocator,
    /// By sequence, whether a step sampled an id for it that may be a row's token.
    sampled: Vec<bool>,
    /// Whether sequences begin with a source.
    encodes: bool,
    /// Scales of so many adapters, sequence by sequence.
    adapters: usize,
    scales: Vec<f32>,
}

impl Session {
    /// A session whose sequences hold nothing. `stores`: rule and blocks of each.
    pub fn new(limits: Limits, stores: &[(Rule, usize)]) -> Session {
        let n_seqs = limits.n_seqs;
        Session {
            limits,
            blocks: BlockAllocator::new(stores, n_seqs),
            sampled: vec![false; n_seqs],
            encodes: false,
            adapters: 0,
            scales: Vec::new(),
        }
    }

    /// This session, whose sequences begin with a source if `encodes`.
    #[must_use]
    pub fn encoding(self, encodes: bool) -> Session {
        Session { encodes, ..self }
    }

    /// This session, whose sequences have scales of so many adapters, 0 to begin with.
    #[must_use]
    pub fn with_adapters(self, adapters: usize) -> Session {
        Session { adapters, scales: vec![0.0; adapters * self.limits.n_seqs], ..self }
    }

    /// Adapters that sequences have scales of.
    pub fn adapters(&self) -> usize {
        self.adapters
    }

    /// Scales of a sequence's adapters, `[adapters]`.
    pub fn adapter_scales(&self, seq: u32) -> &[f32] {
        &self.scales[seq as usize * self.adapters..][..self.adapters]
    }

    /// Sets these. What stands behind those of all adapters is for none.
    ///
    /// # Errors
    /// No such sequence; fewer scales than adapters.
    pub fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        let (n, n_seqs) = (self.adapters, self.limits.n_seqs);
        let (true, Some(scales)) = ((seq as usize) < n_seqs, scales.get(..n)) else {
            let found = scales.len();
            let what = format!("sequence {seq}: expected one below {n_seqs} and scales of {n} adapters, found {found}");
            return Err(Error::Request(what));
        };
        self.scales[seq as usize * n..][..n].copy_from_slice(scales);
        Ok(())
    }

    /// What a step may hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Blocks and their tables.
    pub fn blocks(&self) -> &BlockAllocator {
        &self.blocks
    }

    /// Checks the rows of a step and makes room for all of them or, on an error, for none.
    ///
    /// # Errors
    /// As [`Limits::check`] and [`BlockAllocator::admit`]; a sampled token of a sequence that has none; rows of a source where there is
    /// none, others before it.
    pub fn admit(&mut self, rows: &[Row]) -> Result<CheckedStep> {
        let checked = self.limits.check(rows)?;
        self.check_source(rows)?;
        self.check_media(rows)?;
        let unknown = |row: &&Row| row.token == Token::Sampled && !self.sampled[row.seq as usize];
        if let Some(row) = rows.iter().find(unknown) {
            let seq = row.seq;
            return Err(Error::Request(format!("sequence {seq}: expected an id that a step sampled, found none")));
        }
        self.blocks.admit(rows)?;
        Ok(checked)
    }

    /// Checks that a sequence's source comes first, in a step of sources alone, where there are such.
    fn check_source(&self, rows: &[Row]) -> Result<()> {
        let bad = |row: &Row, what: String| Err(Error::Request(format!("sequence {}: {what}", row.seq)));
        let sources = rows.iter().filter(|row| row.token.is_source()).count();
        if !self.encodes && sources == 0 {
            return Ok(());
        }
        for row in rows {
            let (held, source) = (self.blocks.sequence_len(row.seq), self.blocks.source(row.seq));
            match row.token.is_source() {
                true if !self.encodes => {
                    return bad(row, "expected a model with an encoder for a source, found none".into())
                }
                true if sources < rows.len() => {
                    return bad(row, "expected rows of sources alone in their step, found others".into());
                }
                true if row.has_output() => return bad(row, "expected no output of a source's row, found one".into()),
                true if held > 0 => {
                    return bad(
                        row,
                        format!("expected all of a source in one step, before all else, found {held} positions"),
                    );
                }
                false if self.encodes && (source == 0 || (row.pos as usize) < source) => {
                    let pos = row.pos;
                    return bad(row, format!("expected a position behind its source of {source}, found {pos}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that rows of media that a sequence holds in part go on with the others, and no rows go on otherwise.
    fn check_media(&self, rows: &[Row]) -> Result<()> {
        let holds = |row: &Row| row.medium.is_some() || !self.blocks.media(row.seq).is_empty();
        if !rows.iter().any(holds) {
            return Ok(());
        }
        let mut seen = vec![false; self.limits.n_seqs];
        for row in rows.iter().filter(|row| !std::mem::replace(&mut seen[row.seq as usize], true)) {
            let pos = row.pos as usize;
            let held = self.blocks.media(row.seq).iter().rfind(|placed| placed.is_cut_at(pos));
            let own =
                row.medium.as_ref().filter(|medium| medium.index > 0).map(|medium| PlacedMedium::of(medium, row.pos));
            if held.copied() != own {
                let of = |placed: Option<PlacedMedium>| match placed {
                    Some(placed) => format!("row {} of a medium of {}", pos - placed.at, placed.n),
                    None => "none that goes on with a medium".into(),
                };
                let (expected, found) = (of(held.copied()), of(own));
                let what = format!("sequence {}, position {pos}: expected {expected}, found {found}", row.seq);
                return Err(Error::Request(what));
            }
        }
        Ok(())
    }

    /// Undoes the last [`Session::admit`], of a step that did not start after all.
    pub fn undo(&mut self) {
        self.blocks.undo();
    }

    /// A step of these rows is under way: sequences with output rows have sampled ids.
    pub fn note_step(&mut self, rows: &[Row]) {
        rows.iter().filter(|row| row.has_output()).for_each(|row| self.sampled[row.seq as usize] = true);
    }

    /// No id was sampled for a sequence after all.
    pub fn lose_sampled(&mut self, seq: u32) {
        self.sampled[seq as usize] = false;
    }

    /// Forgets positions from `from` on, and what was sampled after them. Gives how many are still held.
    pub fn forget(&mut self, seq: u32, from: u32) -> usize {
        let (held, still) = (self.blocks.sequence_len(seq), self.blocks.forget(seq, from));
        if still < held || from == 0 {
            self.sampled.get_mut(seq as usize).into_iter().for_each(|sampled| *sampled = false);
        }
        still
    }

    /// Makes room for a sequence as [`BlockAllocator::adopt`] does; the sequence has no sampled id.
    ///
    /// # Errors
    /// As [`BlockAllocator::adopt`], and more positions than the context has.
    pub fn adopt(&mut self, seq: u32, kept: &StateHeader) -> Result<()> {
        if kept.held > self.limits.n_ctx || (kept.source > 0) != (self.encodes && kept.held > 0) {
            let (n_ctx, StateHeader { held, source, .. }) = (self.limits.n_ctx, kept);
            let what = format!("expected a state of at most {n_ctx} positions, found {held}, {source} of a source");
            return Err(Error::Request(what));
        }
        self.forget(seq, 0);
        self.blocks.adopt(seq, kept)
    }

    /// Makes room for a sequence as [`BlockAllocator::adopt_beside`] does; the sequence has no sampled id.
    ///
    /// # Errors
    /// As [`BlockAllocator::adopt_beside`].
    pub fn adopt_beside(&mut self, beside: u32, seq: u32, kept: &StateHeader) -> Result<()> {
        self.forget(seq, 0);
        self.blocks.adopt_beside(beside, seq, kept)
    }

    /// Copies the beginning of a sequence as [`BlockAllocator::fork`] does; `to` has no sampled id.
    ///
    /// # Errors
    /// As [`BlockAllocator::fork`].
    pub fn fork(&mut self, from: u32, to: u32, n: usize) -> Result<()> {
        self.blocks.fork(from, to, n)?;
        self.lose_sampled(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_step::RowOutput;

    fn session(blocks: usize) -> Session {
        let limits = Limits { n_vocab: 10, n_ctx: 256, dense_positions: None, max_rows: 64, n_seqs: 3, vectors: None };
        Session::new(limits, &[(Rule::Paged, blocks)])
    }

    fn row(seq: u32, pos: u32, token: Token, output: RowOutput) -> Row {
        Row { seq, pos, token, output, medium: None }
    }

    #[test]
    fn a_sampled_token_takes_a_step_that_sampled() {
        let mut s = session(8);
        let first = [row(0, 0, Token::Id(1), RowOutput::None)];
        let refused = |s: &mut Session, pos| {
            let error = s.admit(&[row(0, pos, Token::Sampled, RowOutput::Id)]).unwrap_err().to_string();
            assert!(error.contains("sequence 0: expected an id that a step sampled"), "{error}");
        };
        refused(&mut s, 0);
        s.admit(&first).unwrap();
        s.note_step(&first);
        refused(&mut s, 1);
        let second = [row(0, 1, Token::Id(1), RowOutput::Id)];
        s.admit(&second).unwrap();
        refused(&mut s, 2); // admitted, but not under way
        s.note_step(&second);
        s.admit(&[row(0, 2, Token::Sampled, RowOutput::None)]).unwrap();
        s.forget(0, 2);
        refused(&mut s, 2);
        s.note_step(&second);
        s.lose_sampled(0);
        refused(&mut s, 2);
        s.note_step(&second);
        s.fork(0, 1, 2).unwrap();
        assert!(s.admit(&[row(1, 2, Token::Sampled, RowOutput::Id)]).is_err(), "a fork has none");
        assert_eq!((s.forget(7, 0), s.blocks().sequence_len(7)), (0, 0), "no such sequence");
    }

    #[test]
    fn a_source_comes_first_and_goes_with_what_is_before_its_end() {
        let mut s = session(8).encoding(true);
        let source = |seq, n| (0..n).map(|pos| row(seq, pos, Token::Source(1), RowOutput::None)).collect::<Vec<_>>();
        s.admit(&source(0, 40)).unwrap();
        s.undo();
        assert_eq!((s.blocks.sequence_len(0), s.blocks.source(0)), (0, 0));
        s.admit(&[source(0, 40), source(1, 3)].concat()).unwrap();
        s.admit(&[row(0, 40, Token::Id(1), RowOutput::Id), row(1, 3, Token::Id(1), RowOutput::Id)]).unwrap();
        s.fork(0, 2, 40).unwrap();
        assert_eq!([0, 1, 2].map(|seq| s.blocks.source(seq)), [40, 3, 40]);
        assert!(s.fork(0, 2, 39).is_err() && s.blocks.source(2) == 40, "refused, and as it was");
        assert_eq!((s.forget(0, 40), s.blocks.source(0)), (40, 40));
        assert_eq!((s.forget(0, 39), s.blocks.source(0)), (0, 0));
        s.fork(1, 2, 0).unwrap();
        assert_eq!((s.blocks.source(2), s.blocks.free(0)), (0, 7));
        assert!(s.admit(&source(1, 3)).is_err(), "it has one");
    }

    #[test]
    fn a_step_that_is_refused_leaves_all_as_it_was() {
        let mut s = session(3);
        let rows = |seq, from: u32, to| (from..to).map(move |pos| row(seq, pos, Token::Id(1), RowOutput::None));
        s.admit(&rows(0, 0, 40).collect::<Vec<_>>()).unwrap();
        let before =
            format!("{:?}", (s.blocks.table(0, 0), s.blocks.table(0, 1), s.blocks.free(0), s.blocks.sequence_len(0)));
        // The first sequence fits, the second one does not.
        let both: Vec<Row> = rows(0, 40, 64).chain(rows(1, 0, 33)).collect();
        assert_eq!(s.blocks.blocks_needed(0, &both), 2);
        assert!(s.admit(&both).unwrap_err().to_string().contains("expected a free cache block"));
        let gap: Vec<Row> = rows(0, 40, 50).chain(rows(1, 5, 6)).collect();
        assert!(s.admit(&gap).unwrap_err().to_string().contains("position 5 of sequence 1: expected at most 0"));
        s.admit(&rows(1, 0, 20).collect::<Vec<_>>()).unwrap();
        s.undo();
        let after =
            format!("{:?}", (s.blocks.table(0, 0), s.blocks.table(0, 1), s.blocks.free(0), s.blocks.sequence_len(0)));
        assert_eq!(after, before);
    }
}
