//! Which blocks of which store hold which positions of which sequence: admission of whole steps, forks, copies on write.
//!
//! A session has a store per kind of state that its layers keep, each with a pool of blocks and a table per sequence. A step
//! is admitted whole or not at all, and what admission changed can be undone until the next one.

use super::{Kept, Pool, Rule, Span, Table};
use crate::step::Row;
use crate::{Error, Result};

/// Contents that must move before a step: all layers of the store copy block `from` to block `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// Which store.
    pub store: usize,
    /// A block that other sequences hold, too.
    pub from: u32,
    /// The writing sequence's own from now on.
    pub to: u32,
}

/// Blocks under one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Store {
    rule: Rule,
    pool: Pool,
    /// By sequence.
    tables: Vec<Table>,
}

/// Something that admission changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The sequence's table got a block at its end.
    Took { store: usize, seq: usize },
    /// Block `at` of the table was `old`, which others hold too.
    Replaced { store: usize, seq: usize, at: usize, old: u32 },
    /// The table's first block was let go.
    Passed { store: usize, seq: usize, block: u32 },
    /// The sequence held so many positions.
    Held { seq: usize, old: usize },
    /// The sequence got its source.
    Source { seq: usize },
}

/// The books of all sequences.
#[derive(Clone, Debug)]
pub struct Blocks {
    stores: Vec<Store>,
    /// Positions by sequence.
    held: Vec<usize>,
    /// Of which so many, the first ones, are those of its source.
    source: Vec<usize>,
    /// What the last admission changed, in order.
    changes: Vec<Change>,
    copies: Vec<BlockCopy>,
    spans: Spans,
}

/// What each sequence of a step writes, in order of first appearance.
#[derive(Clone, Debug)]
struct Spans {
    spans: Vec<Span>,
    /// By sequence, where its span is if it has one; room to work in, all `NONE` between calls.
    at: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Spans {
    fn new(n_seqs: usize) -> Spans {
        Spans { spans: Vec::with_capacity(n_seqs), at: vec![NONE; n_seqs] }
    }

    /// Of rows whose positions are in order; sequences that do not exist have none.
    fn set(&mut self, rows: &[Row]) {
        self.spans.clear();
        for row in rows {
            let (seq, pos) = (row.seq as usize, row.pos as usize);
            match self.at.get_mut(seq) {
                Some(at) if *at == NONE => {
                    *at = self.spans.len() as u32;
                    self.spans.push(Span { seq, from: pos, to: pos + 1 });
                }
                Some(at) => self.spans[*at as usize].to = pos + 1,
                None => {}
            }
        }
        self.spans.iter().for_each(|span| self.at[span.seq] = NONE);
    }
}

impl Blocks {
    /// Stores of so many blocks each, all free, for `n_seqs` sequences.
    pub fn new(stores: &[(Rule, usize)], n_seqs: usize) -> Blocks {
        let store = |(rule, blocks): &(Rule, usize)| {
            let tables = vec![Table::default(); n_seqs];
            Store { rule: *rule, pool: Pool::new(*blocks), tables }
        };
        Blocks {
            stores: stores.iter().map(store).collect(),
            held: vec![0; n_seqs],
            source: vec![0; n_seqs],
            changes: Vec::new(),
            copies: Vec::new(),
            spans: Spans::new(n_seqs),
        }
    }

    /// Positions that a sequence holds.
    pub fn held(&self, seq: u32) -> usize {
        self.held.get(seq as usize).copied().unwrap_or(0)
    }

    /// Positions of a sequence's source; 0 if it has none.
    pub fn source(&self, seq: u32) -> usize {
        self.source.get(seq as usize).copied().unwrap_or(0)
    }

    /// Blocks of a sequence in a store.
    pub fn table(&self, store: usize, seq: usize) -> &Table {
        &self.stores[store].tables[seq]
    }

    /// How many stores there are.
    pub fn stores(&self) -> usize {
        self.stores.len()
    }

    /// Blocks of a store that no sequence holds.
    pub fn free(&self, store: usize) -> usize {
        self.stores[store].pool.free()
    }

    /// Makes room for the rows of a step, whose positions [`crate::step::Limits::check`] found in order: all of it or, on an
    /// error, none. What [`Blocks::copies`] names must be copied before the step.
    ///
    /// # Errors
    /// A gap between what a sequence holds and its first row, or fewer free blocks than the step takes.
    pub fn admit(&mut self, rows: &[Row]) -> Result<()> {
        self.settle();
        self.spans.set(rows);
        let admitted = (0..self.spans.spans.len()).try_for_each(|i| self.admit_span(self.spans.spans[i]));
        if admitted.is_err() {
            self.undo();
        } else if rows.first().is_some_and(|row| row.token.is_source()) {
            for Span { seq, to, .. } in &self.spans.spans {
                self.source[*seq] = *to;
                self.changes.push(Change::Source { seq: *seq });
            }
        }
        admitted
    }

    /// Undoes the last admission, of a step that did not start after all.
    pub fn undo(&mut self) {
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Took { store, seq } => {
                    let store = &mut self.stores[store];
                    if let Some(block) = store.tables[seq].blocks.pop() {
                        store.pool.release(block);
                    }
                }
                Change::Replaced { store, seq, at, old } => {
                    let store = &mut self.stores[store];
                    let new = std::mem::replace(&mut store.tables[seq].blocks[at], old);
                    store.pool.release(new);
                    store.pool.share(old);
                }
                Change::Passed { store, seq, block } => {
                    let Store { pool, tables, .. } = &mut self.stores[store];
                    pool.hold_again(block);
                    tables[seq].blocks.insert(0, block);
                    tables[seq].first -= 1;
                }
                Change::Held { seq, old } => self.held[seq] = old,
                Change::Source { seq } => self.source[seq] = 0,
            }
        }
        self.copies.clear();
    }

    /// Copies that the last admitted step needs before it.
    pub fn copies(&self) -> &[BlockCopy] {
        &self.copies
    }

    /// Blocks that admission of these rows would take of a store, those of copies on write included.
    pub fn needed(&self, store: usize, rows: &[Row]) -> usize {
        let mut spans = Spans::new(self.held.len());
        spans.set(rows);
        let (store, mut copied) = (&self.stores[store], Vec::new());
        let mut count = 0;
        for span in &spans.spans {
            let table = &store.tables[span.seq];
            let (held, passed) = (self.held[span.seq], store.rule.kept_from(span.from).max(table.first));
            let mut taken = store.rule.end_of(held.max(span.to)).saturating_sub(table.end());
            for at in store.rule.written(*span).filter(|at| (passed..table.end()).contains(at)) {
                let block = table.blocks[at - table.first];
                // Of all holders that write, the last one keeps the block.
                let before = copied.iter().filter(|b| **b == block).count();
                if store.pool.holders(block) as usize > 1 + before {
                    taken += 1;
                    copied.push(block);
                }
            }
            let freed = (table.first..passed).filter(|at| store.pool.holders(table.blocks[at - table.first]) == 1);
            count += taken.saturating_sub(freed.count());
        }
        count
    }

    /// Makes `to` a sequence of the first `n` positions of `from`, in the same blocks; what `to` held is forgotten.
    ///
    /// # Errors
    /// No such sequences, fewer positions than `n`, or state that is no longer that of `n` positions.
    pub fn fork(&mut self, from: u32, to: u32, n: usize) -> Result<()> {
        let (source, target) = (from as usize, to as usize);
        let bad = |what: String| Err(Error::Request(what));
        if source.max(target) >= self.held.len() || source == target {
            return bad(format!("fork: expected two sequences below {}, found {from} and {to}", self.held.len()));
        }
        if n > self.held[source] {
            return bad(format!(
                "fork of sequence {from}: expected at most {} positions, found {n}",
                self.held[source]
            ));
        }
        if n > 0 && n < self.source[source] {
            let least = self.source[source];
            return bad(format!("fork of sequence {from}: expected its whole source of {least} positions, found {n}"));
        }
        let gone = |s: &Store| !s.rule.can_go_back(&s.tables[source], self.held[source], n);
        if self.stores.iter().any(gone) {
            return bad(format!("fork of sequence {from}: the state of its first {n} positions is no longer held"));
        }
        self.forget(to, 0);
        for store in &mut self.stores {
            let mut table = store.tables[source].clone();
            let end = store.rule.end_of(n);
            table.blocks.truncate(end.saturating_sub(table.first));
            if n == 0 {
                table = Table::default();
            }
            table.blocks.iter().for_each(|block| store.pool.share(*block));
            store.tables[target] = table;
        }
        self.held[target] = n;
        self.source[target] = if n > 0 { self.source[source] } else { 0 };
        Ok(())
    }

    /// Whether a sequence can go on at `from`: whether [`Blocks::forget`] would leave all before it.
    pub fn can_cut(&self, seq: usize, from: usize) -> bool {
        let Some(&held) = self.held.get(seq) else { return false };
        from >= held
            || from >= self.source[seq] && self.stores.iter().all(|s| s.rule.can_go_back(&s.tables[seq], held, from))
    }

    /// Forgets positions from `from` on; blocks that no other sequence holds are free then. Gives what is still held: `from` or
    /// fewer, none where a store no longer has what rows from there on would read.
    pub fn forget(&mut self, seq: u32, from: u32) -> usize {
        self.settle();
        let (seq, mut from) = (seq as usize, from as usize);
        let Some(&held) = self.held.get(seq) else { return 0 };
        if from >= held {
            return held;
        }
        if !self.can_cut(seq, from) {
            from = 0;
            self.source[seq] = 0;
        }
        for store in &mut self.stores {
            let table = &mut store.tables[seq];
            let keep = store.rule.end_of(from).saturating_sub(table.first).min(table.blocks.len());
            for block in table.blocks.drain(keep..).rev() {
                store.pool.release(block);
            }
            if from == 0 {
                table.first = 0;
            }
        }
        self.held[seq] = from;
        from
    }

    /// What there is to save of a sequence: of windows no more than rows from here on may read.
    pub fn kept(&self, seq: u32) -> Kept {
        let first = (0..self.stores.len()).map(|store| self.kept_from(store, seq)).collect();
        Kept { held: self.held(seq), source: self.source(seq), first }
    }

    /// The blocks of a store that [`Blocks::kept`] means.
    pub fn kept_blocks(&self, store: usize, seq: u32) -> &[u32] {
        let tables = &self.stores[store].tables;
        tables.get(seq as usize).map_or(&[], |table| &table.blocks[self.kept_from(store, seq) - table.first..])
    }

    fn kept_from(&self, store: usize, seq: u32) -> usize {
        let Some(table) = self.stores[store].tables.get(seq as usize) else { return 0 };
        self.stores[store].rule.kept_from(self.held(seq)).clamp(table.first, table.end())
    }

    /// Makes room for a sequence of which all that `kept` says is there; what it held is forgotten. On an error it holds nothing.
    ///
    /// # Errors
    /// No such sequence, blocks that cannot be, too few free ones.
    pub fn adopt(&mut self, seq: u32, kept: &Kept) -> Result<()> {
        self.forget(seq, 0);
        let Kept { held, source, first } = kept;
        let bad = |what: String| Err(Error::Request(format!("sequence {seq}: {what}")));
        if seq as usize >= self.held.len() {
            return bad(format!("expected one below {}", self.held.len()));
        }
        // What a row behind them reads is there, and no more of a window than there is room for.
        let fits = |(store, first): (&Store, &usize)| {
            let needed = store.rule.needed_from(*held).min(store.rule.end_of(*held));
            (store.rule.kept_from(*held).min(needed)..=needed).contains(first)
        };
        if first.len() != self.stores.len() || source > held || !self.stores.iter().zip(first).all(fits) {
            return bad(format!("expected the state of {held} positions, found blocks from {first:?} on"));
        }
        if *held == 0 {
            return Ok(());
        }
        (self.held[seq as usize], self.source[seq as usize]) = (*held, *source);
        let taken = (0..self.stores.len()).try_for_each(|i| {
            self.stores[i].tables[seq as usize].first = first[i];
            (first[i]..self.stores[i].rule.end_of(*held)).try_for_each(|_| {
                let block = self.take(i, seq as usize)?;
                self.stores[i].tables[seq as usize].blocks.push(block);
                Ok(())
            })
        });
        if taken.is_err() {
            self.forget(seq, 0);
        }
        taken
    }

    /// The last admission stays.
    fn settle(&mut self) {
        self.changes.clear();
        self.copies.clear();
    }

    fn admit_span(&mut self, span: Span) -> Result<()> {
        let Span { seq, from, to } = span;
        let held = self.held[seq];
        if from > held {
            return Err(Error::Request(format!("position {from} of sequence {seq}: expected at most {held}")));
        }
        if from < held && self.stores.iter().any(|s| !s.rule.can_go_back(&s.tables[seq], held, from)) {
            let what = format!("position {from} of sequence {seq}: expected {held}, what it reads is no longer held");
            return Err(Error::Request(what));
        }
        for i in 0..self.stores.len() {
            self.pass(i, span);
            self.copy_shared(i, span)?;
            let end = self.stores[i].rule.end_of(held.max(to));
            while self.stores[i].tables[seq].end() < end {
                let block = self.take(i, seq)?;
                self.stores[i].tables[seq].blocks.push(block);
                self.changes.push(Change::Took { store: i, seq });
            }
        }
        self.changes.push(Change::Held { seq, old: held });
        self.held[seq] = held.max(to);
        Ok(())
    }

    fn take(&mut self, store: usize, seq: usize) -> Result<u32> {
        let free = || Error::Request(format!("sequence {seq}: expected a free cache block, found none"));
        self.stores[store].pool.take().ok_or_else(free)
    }

    /// Lets go of the blocks that the rule does not keep from the step on.
    fn pass(&mut self, i: usize, span: Span) {
        let (Store { rule, pool, tables }, seq) = (&mut self.stores[i], span.seq);
        let (kept, table) = (rule.kept_from(span.from), &mut tables[seq]);
        while table.first < kept && !table.blocks.is_empty() {
            let block = table.blocks.remove(0);
            table.first += 1;
            pool.release(block);
            self.changes.push(Change::Passed { store: i, seq, block });
        }
    }

    /// Gives the sequence blocks of its own in place of those that it writes to and others hold, too.
    fn copy_shared(&mut self, i: usize, span: Span) -> Result<()> {
        let (seq, table) = (span.seq, &self.stores[i].tables[span.seq]);
        let (first, end) = (table.first, table.end());
        for at in self.stores[i].rule.written(span).filter(|at| (first..end).contains(at)) {
            let at = at - first;
            let old = self.stores[i].tables[seq].blocks[at];
            if self.stores[i].pool.holders(old) > 1 {
                let new = self.take(i, seq)?;
                let store = &mut self.stores[i];
                store.tables[seq].blocks[at] = new;
                store.pool.release(old);
                self.changes.push(Change::Replaced { store: i, seq, at, old });
                self.copies.push(BlockCopy { store: i, from: old, to: new });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::table::RING_BACK;
    use crate::step::{RowOutput, Token};

    fn rows(seq: u32, from: u32, to: u32) -> Vec<Row> {
        (from..to).map(|pos| Row { seq, pos, token: Token::Id(0), output: RowOutput::None }).collect()
    }

    fn paged(blocks: usize) -> Blocks {
        Blocks::new(&[(Rule::Paged, blocks)], 3)
    }

    /// All that admission may change.
    fn state(b: &Blocks) -> String {
        format!("{:?} {:?} {:?}", b.stores, b.held, b.source)
    }

    #[test]
    fn blocks_are_reused_after_forgetting_and_run_out_with_an_error() {
        let mut b = paged(2);
        b.admit(&rows(0, 0, 33)).unwrap();
        assert_eq!(b.table(0, 0).blocks, [0, 1]);
        assert!(b.admit(&rows(1, 0, 1)).is_err(), "both blocks are taken");
        assert!(b.admit(&rows(0, 40, 41)).is_err(), "a gap");
        assert_eq!((b.forget(0, 32), b.held(0)), (32, 32));
        b.admit(&rows(1, 0, 1)).unwrap();
        assert_eq!((&b.table(0, 0).blocks[..], &b.table(0, 1).blocks[..]), (&[0][..], &[1][..]));
        assert_eq!(b.forget(9, 0), 0, "no such sequence");
    }

    #[test]
    fn forks_share_blocks_until_one_of_them_writes() {
        let mut b = paged(4);
        b.admit(&rows(0, 0, 40)).unwrap();
        b.fork(0, 1, 40).unwrap();
        assert_eq!((b.free(0), b.held(1), &b.table(0, 1).blocks[..]), (2, 40, &[0, 1][..]));
        // The fork writes to the second block, which it gets for itself; the first stays shared.
        assert_eq!(b.needed(0, &rows(1, 40, 41)), 1);
        b.admit(&rows(1, 40, 41)).unwrap();
        assert_eq!(b.copies(), [BlockCopy { store: 0, from: 1, to: 2 }]);
        assert_eq!((&b.table(0, 0).blocks[..], &b.table(0, 1).blocks[..]), (&[0, 1][..], &[0, 2][..]));
        // Now nobody shares the blocks that are written.
        b.admit(&[rows(0, 40, 41), rows(1, 41, 42)].concat()).unwrap();
        assert_eq!((b.copies(), b.free(0)), (&[][..], 1));
        // What one of them forgets, the other keeps.
        b.forget(0, 0);
        assert_eq!((b.free(0), b.stores[0].pool.holders(0)), (2, 1));
        b.forget(1, 0);
        assert_eq!(b.free(0), 4);
    }

    #[test]
    fn of_all_that_write_to_a_shared_block_the_last_keeps_it() {
        let mut b = paged(3);
        b.admit(&rows(0, 0, 10)).unwrap();
        b.fork(0, 1, 10).unwrap();
        b.fork(0, 2, 5).unwrap();
        let all = [rows(2, 5, 6), rows(0, 10, 11), rows(1, 10, 11)].concat();
        assert_eq!(b.needed(0, &all), 2);
        b.admit(&all).unwrap();
        assert_eq!((b.copies().len(), b.free(0)), (2, 0));
        let tables = [0, 1, 2].map(|seq| b.table(0, seq).blocks[0]);
        assert_eq!(tables, [2, 0, 1]);
    }

    #[test]
    fn a_fork_of_whole_blocks_copies_nothing_and_one_of_less_copies_when_it_writes() {
        let mut b = paged(8);
        b.admit(&rows(0, 0, 64)).unwrap();
        b.fork(0, 1, 32).unwrap();
        b.admit(&rows(1, 32, 33)).unwrap();
        assert_eq!((b.copies(), &b.table(0, 1).blocks[..]), (&[][..], &[0, 2][..]));
        b.fork(0, 1, 0).unwrap();
        assert_eq!((b.held(1), b.table(0, 1).blocks.len(), b.free(0)), (0, 0, 6));
        let refused = |b: &mut Blocks, from, to, n| b.fork(from, to, n).unwrap_err().to_string();
        assert!(refused(&mut b, 0, 1, 65).contains("expected at most 64 positions, found 65"));
        assert!(refused(&mut b, 0, 3, 1).contains("expected two sequences below 3, found 0 and 3"));
        assert!(refused(&mut b, 1, 1, 0).contains("expected two sequences"));
    }

    #[test]
    fn what_admission_did_is_undone_to_the_last_block() {
        let ring = Rule::Ring { window: 40 };
        let mut b = Blocks::new(&[(Rule::Paged, 6), (ring, 6), (Rule::Recurrent, 2)], 3);
        b.admit(&rows(0, 0, 100)).unwrap();
        b.fork(0, 1, 100).unwrap();
        let before = state(&b);
        b.admit(&[rows(1, 100, 140), rows(0, 100, 101)].concat()).unwrap();
        assert!(state(&b) != before && !b.copies().is_empty());
        b.undo();
        assert_eq!((state(&b), b.copies()), (before.clone(), &[][..]));
        // One state is left for the third sequence, and no K and V.
        assert!(b.admit(&[rows(1, 100, 140), rows(2, 0, 33)].concat()).is_err());
        assert_eq!(state(&b), before);
    }

    #[test]
    fn a_ring_holds_a_window_and_frees_what_is_before_it() {
        let (window, n_ctx) = (40, 1000);
        let rule = Rule::Ring { window };
        let most = rule.most_blocks(n_ctx, 1);
        let mut b = Blocks::new(&[(rule, most)], 1);
        for pos in 0..300 {
            assert!(b.needed(0, &rows(0, pos, pos + 1)) <= b.free(0) + 1, "position {pos}");
            b.admit(&rows(0, pos, pos + 1)).unwrap();
            let (table, pos) = (b.table(0, 0), pos as usize);
            let seen = (pos + 1).saturating_sub(window);
            assert!(table.first * 32 <= seen, "position {pos}: the window is held");
            assert!((table.first + 1) * 32 > seen.saturating_sub(RING_BACK), "position {pos}: no more than that");
            assert_eq!(table.end(), pos / 32 + 1);
            assert!(b.free(0) + table.blocks.len() == most);
        }
        // Going back a little is possible, going back before what is held is starting anew.
        assert_eq!((b.forget(0, 290), b.held(0)), (290, 290));
        b.admit(&rows(0, 290, 291)).unwrap();
        assert_eq!((b.forget(0, 200), b.held(0), b.free(0)), (0, 0, most));
        b.admit(&rows(0, 0, 1)).unwrap();
    }

    #[test]
    fn rings_fork_with_the_window_they_still_have() {
        let mut b = Blocks::new(&[(Rule::Ring { window: 33 }, 12)], 2);
        b.admit(&rows(0, 0, 64)).unwrap();
        b.admit(&rows(0, 64, 96)).unwrap();
        b.admit(&rows(0, 96, 128)).unwrap();
        assert_eq!(b.table(0, 0), &Table { first: 1, blocks: vec![1, 2, 0] });
        assert!(b.fork(0, 1, 60).unwrap_err().to_string().contains("no longer held"));
        b.fork(0, 1, 100).unwrap();
        assert_eq!(b.table(0, 1), &Table { first: 1, blocks: vec![1, 2, 0] });
        b.admit(&rows(1, 100, 128)).unwrap();
        assert_eq!(b.copies().len(), 1);
        b.admit(&rows(1, 128, 129)).unwrap();
        assert_eq!(b.table(0, 1).first, 2, "what only the other still needs is the other's");
        assert_eq!(b.stores[0].pool.holders(1), 1);
    }

    #[test]
    fn what_is_kept_of_a_sequence_can_be_that_of_another() {
        let stores = [(Rule::Paged, 9), (Rule::Ring { window: 33 }, 7), (Rule::Recurrent, 2)];
        let mut b = Blocks::new(&stores, 2);
        for (from, to) in [(0, 60), (60, 90), (90, 100)] {
            b.admit(&rows(0, from, to)).unwrap();
        }
        let kept = b.kept(0);
        assert_eq!(kept, Kept { held: 100, source: 0, first: vec![0, 1, 0] });
        b.adopt(1, &kept).unwrap();
        assert_eq!((b.held(1), b.kept(1), b.kept_blocks(1, 1).len()), (100, kept.clone(), 3));
        assert!((0..3).all(|store| b.kept_blocks(store, 0).len() == b.kept_blocks(store, 1).len()));
        b.admit(&rows(1, 100, 101)).unwrap();
        // Too few blocks, and blocks that cannot be, leave nothing.
        let mut small = Blocks::new(&[(Rule::Paged, 3), stores[1], stores[2]], 2);
        assert!(small.adopt(0, &kept).is_err());
        assert_eq!((small.free(0), small.free(1), small.free(2), small.held(0)), (3, 7, 2, 0));
        for wrong in [vec![0, 1], vec![1, 1, 0], vec![0, 3, 0], vec![0, 0, 0], vec![0, 1, 1], vec![0, usize::MAX, 0]] {
            assert!(b.adopt(1, &Kept { first: wrong.clone(), ..kept.clone() }).is_err(), "{wrong:?}");
            assert_eq!(b.held(1), 0);
        }
        assert!(b.adopt(2, &kept).is_err() && b.adopt(1, &Kept { held: 0, ..kept.clone() }).is_err());
        assert!(b.adopt(1, &Kept { held: 0, source: 0, first: vec![0; 3] }).is_ok());
    }

    #[test]
    fn a_recurrent_state_is_one_block_that_goes_on_and_never_back() {
        let mut b = Blocks::new(&[(Rule::Recurrent, 2)], 2);
        b.admit(&rows(0, 0, 50)).unwrap();
        b.admit(&rows(0, 50, 500)).unwrap();
        assert_eq!((b.free(0), &b.table(0, 0).blocks[..]), (1, &[0][..]));
        assert!(b.admit(&rows(0, 400, 401)).unwrap_err().to_string().contains("expected 500"));
        assert!(b.fork(0, 1, 499).is_err(), "only the last state is there");
        b.fork(0, 1, 500).unwrap();
        assert_eq!(b.free(0), 1);
        b.admit(&rows(1, 500, 501)).unwrap();
        assert_eq!(b.copies(), [BlockCopy { store: 0, from: 0, to: 1 }]);
        assert_eq!((b.forget(0, 499), b.free(0)), (0, 1), "a state of fewer positions is none");
    }
}
