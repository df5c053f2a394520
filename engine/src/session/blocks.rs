//! Which blocks of which store hold which positions of which sequence: admission of whole steps, forks, copies on write.
//!
//! A session has a store per kind of state that its layers keep, each with a pool of blocks and a table per sequence. A step
//! is admitted whole or not at all, and what admission changed can be undone until the next one.

#[cfg(test)]
mod tests;

use super::{media, BlockPool, BlockTable, PlacedMedium, PositionSpan, Rule, StateHeader};
use pumex_gguf::{Error, Result};
use pumex_step::Row;

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
    pool: BlockPool,
    /// By sequence.
    tables: Vec<BlockTable>,
}

/// Something that admission changed.
#[derive(Clone, Debug)]
enum AdmissionChange {
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
    /// The sequence had so many of its media, and lost these.
    Media { seq: usize, had: usize, lost: Vec<PlacedMedium> },
}

/// The books of all sequences.
#[derive(Clone, Debug)]
pub struct BlockAllocator {
    stores: Vec<Store>,
    /// Positions by sequence.
    held: Vec<usize>,
    /// Positions of each sequence that are its source's: the first ones of those it holds.
    source: Vec<usize>,
    /// By sequence, its media in order.
    media: Vec<Vec<PlacedMedium>>,
    /// What the last admission changed, in order.
    changes: Vec<AdmissionChange>,
    copies: Vec<BlockCopy>,
    spans: Spans,
}

/// What each sequence of a step writes, in order of first appearance.
#[derive(Clone, Debug)]
struct Spans {
    spans: Vec<PositionSpan>,
    /// By sequence, where its span is if it has one; room to work in, all `NONE` between calls.
    at: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Spans {
    fn new(n_seqs: usize) -> Spans {
        Spans { spans: Vec::with_capacity(n_seqs), at: vec![NONE; n_seqs] }
    }

    /// Counts the rows of each sequence; their positions are in order, and sequences that do not exist have none.
    fn set(&mut self, rows: &[Row]) {
        self.spans.clear();
        for row in rows {
            let (seq, pos) = (row.seq as usize, row.pos as usize);
            match self.at.get_mut(seq) {
                Some(at) if *at == NONE => {
                    *at = self.spans.len() as u32;
                    self.spans.push(PositionSpan { seq, from: pos, to: pos + 1 });
                }
                Some(at) => self.spans[*at as usize].to = pos + 1,
                None => {}
            }
        }
        self.spans.iter().for_each(|span| self.at[span.seq] = NONE);
    }
}

impl BlockAllocator {
    /// Stores of so many blocks each, all free, for `n_seqs` sequences.
    pub fn new(stores: &[(Rule, usize)], n_seqs: usize) -> BlockAllocator {
        let store = |(rule, blocks): &(Rule, usize)| {
            let tables = vec![BlockTable::default(); n_seqs];
            Store { rule: *rule, pool: BlockPool::new(*blocks), tables }
        };
        BlockAllocator {
            stores: stores.iter().map(store).collect(),
            held: vec![0; n_seqs],
            source: vec![0; n_seqs],
            media: vec![Vec::new(); n_seqs],
            changes: Vec::new(),
            copies: Vec::new(),
            spans: Spans::new(n_seqs),
        }
    }

    /// Positions that a sequence holds.
    pub fn sequence_len(&self, seq: u32) -> usize {
        self.held.get(seq as usize).copied().unwrap_or(0)
    }

    /// Positions of a sequence's source; 0 if it has none.
    pub fn source(&self, seq: u32) -> usize {
        self.source.get(seq as usize).copied().unwrap_or(0)
    }

    /// Media of a sequence, in order; of the last one, not all rows may be there.
    pub fn media(&self, seq: u32) -> &[PlacedMedium] {
        self.media.get(seq as usize).map_or(&[], Vec::as_slice)
    }

    /// Positions of a row that is admitted, in the four streams that models with rope sections rotate by. Of others, the first is
    /// where it stands.
    pub fn position(&self, row: &Row) -> [u32; 4] {
        media::position(self.media(row.seq), row)
    }

    /// Blocks of a sequence in a store.
    pub fn table(&self, store: usize, seq: usize) -> &BlockTable {
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

    /// Makes room for the rows of a step, whose positions [`pumex_step::Limits::check`] found in order: all of it or, on an
    /// error, none. What [`BlockAllocator::copies`] names must be copied before the step.
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
            for PositionSpan { seq, to, .. } in &self.spans.spans {
                self.source[*seq] = *to;
                self.changes.push(AdmissionChange::Source { seq: *seq });
            }
        }
        if admitted.is_ok() {
            self.admit_media(rows);
        }
        admitted
    }

    /// Has sequences hold the media that begin in a step, and no longer those that its rows take the place of.
    fn admit_media(&mut self, rows: &[Row]) {
        for PositionSpan { seq, from, .. } in &self.spans.spans {
            let media = &mut self.media[*seq];
            let kept = media.partition_point(|placed| placed.at < *from);
            if kept < media.len() {
                let lost = media.split_off(kept);
                self.changes.push(AdmissionChange::Media { seq: *seq, had: kept, lost });
            }
        }
        for row in rows {
            let Some(medium) = row.medium.as_ref().filter(|medium| medium.index == 0) else { continue };
            let (seq, media) = (row.seq as usize, &mut self.media[row.seq as usize]);
            self.changes.push(AdmissionChange::Media { seq, had: media.len(), lost: Vec::new() });
            media.push(PlacedMedium::of(medium, row.pos));
        }
    }

    /// Undoes the last admission, of a step that did not start after all.
    pub fn undo(&mut self) {
        while let Some(change) = self.changes.pop() {
            match change {
                AdmissionChange::Took { store, seq } => {
                    let store = &mut self.stores[store];
                    if let Some(block) = store.tables[seq].blocks.pop() {
                        store.pool.release(block);
                    }
                }
                AdmissionChange::Replaced { store, seq, at, old } => {
                    let store = &mut self.stores[store];
                    let new = std::mem::replace(&mut store.tables[seq].blocks[at], old);
                    store.pool.release(new);
                    store.pool.share(old);
                }
                AdmissionChange::Passed { store, seq, block } => {
                    let Store { pool, tables, .. } = &mut self.stores[store];
                    pool.hold_again(block);
                    tables[seq].blocks.insert(0, block);
                    tables[seq].first -= 1;
                }
                AdmissionChange::Held { seq, old } => self.held[seq] = old,
                AdmissionChange::Source { seq } => self.source[seq] = 0,
                AdmissionChange::Media { seq, had, lost } => {
                    self.media[seq].truncate(had);
                    self.media[seq].extend(lost);
                }
            }
        }
        self.copies.clear();
    }

    /// Copies that the last admitted step needs before it.
    pub fn copies(&self) -> &[BlockCopy] {
        &self.copies
    }

    /// Blocks that admission of these rows would take of a store, those of copies on write included.
    pub fn blocks_needed(&self, store: usize, rows: &[Row]) -> usize {
        let mut spans = Spans::new(self.held.len());
        spans.set(rows);
        let (store, mut copied) = (&self.stores[store], Vec::new());
        let mut count = 0;
        for span in &spans.spans {
            let table = &store.tables[span.seq];
            let (held, passed) = (self.held[span.seq], store.rule.first_retained_block(span.from).max(table.first));
            let mut taken = store.rule.end_of(held.max(span.to)).saturating_sub(table.end());
            for at in store.rule.written_blocks(*span).filter(|at| (passed..table.end()).contains(at)) {
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
                table = BlockTable::default();
            }
            table.blocks.iter().for_each(|block| store.pool.share(*block));
            store.tables[target] = table;
        }
        self.held[target] = n;
        self.source[target] = if n > 0 { self.source[source] } else { 0 };
        self.media[target] = self.media[source].iter().copied().filter(|placed| placed.at < n).collect();
        Ok(())
    }

    /// Whether a sequence can go on at `from`: whether [`BlockAllocator::forget`] would leave all before it.
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
        self.media[seq].retain(|placed| placed.at < from);
        from
    }

    /// What there is to save of a sequence: of windows no more than rows from here on may read.
    pub fn state_header(&self, seq: u32) -> StateHeader {
        let first = (0..self.stores.len()).map(|store| self.first_saved_block(store, seq)).collect();
        StateHeader { held: self.sequence_len(seq), source: self.source(seq), first, media: self.media(seq).to_vec() }
    }

    /// The blocks of a store that [`BlockAllocator::state_header`] means.
    pub fn saved_blocks(&self, store: usize, seq: u32) -> &[u32] {
        let tables = &self.stores[store].tables;
        tables.get(seq as usize).map_or(&[], |table| &table.blocks[self.first_saved_block(store, seq) - table.first..])
    }

    fn first_saved_block(&self, store: usize, seq: u32) -> usize {
        let Some(table) = self.stores[store].tables.get(seq as usize) else { return 0 };
        self.stores[store].rule.first_retained_block(self.sequence_len(seq)).clamp(table.first, table.end())
    }

    /// Whether sequences that begin alike hold the same blocks of a store for what is alike.
    pub fn is_shared(&self, store: usize) -> bool {
        self.stores[store].rule == Rule::Paged
    }

    /// Makes room for a sequence of which all that `kept` says is there; what it held is forgotten. On an error it holds nothing.
    ///
    /// # Errors
    /// No such sequence, blocks that cannot be, too few free ones.
    pub fn adopt(&mut self, seq: u32, kept: &StateHeader) -> Result<()> {
        self.adopt_all(seq, kept, None)
    }

    /// Makes room for a sequence that begins as `beside` does: it has that one's blocks where these are shared, and of other stores its
    /// own.
    ///
    /// # Errors
    /// As [`BlockAllocator::adopt`]; another source, more positions than `beside` has.
    pub fn adopt_beside(&mut self, beside: u32, seq: u32, kept: &StateHeader) -> Result<()> {
        if beside == seq || kept.held > self.sequence_len(beside) || kept.source != self.source(beside) {
            let (most, StateHeader { held, source, .. }) = (self.sequence_len(beside), kept);
            self.forget(seq, 0);
            return Err(Error::Request(format!(
                "sequence {seq}: expected a beginning of sequence {beside}, of at most {most} positions, found {held}, {source} of a source"
            )));
        }
        self.adopt_all(seq, kept, Some(beside as usize))
    }

    fn adopt_all(&mut self, seq: u32, kept: &StateHeader, beside: Option<usize>) -> Result<()> {
        self.forget(seq, 0);
        let StateHeader { held, source, first, media } = kept;
        let bad = |what: String| Err(Error::Request(format!("sequence {seq}: {what}")));
        if seq as usize >= self.held.len() {
            return bad(format!("expected one below {}", self.held.len()));
        }
        // What a row behind them reads is there, and no more of a window than there is room for.
        let fits = |(store, first): (&Store, &usize)| {
            let needed = store.rule.first_needed_block(*held).min(store.rule.end_of(*held));
            (store.rule.first_retained_block(*held).min(needed)..=needed).contains(first)
        };
        let in_order = media.windows(2).all(|two| two[0].at.saturating_add(two[0].n) <= two[1].at);
        let are_media = |placed: &PlacedMedium| placed.at < *held && placed.n > 0 && placed.n_pos > 0;
        if !in_order || !media.iter().all(are_media) {
            return bad(format!("expected media that lie behind each other in {held} positions, found {media:?}"));
        }
        if first.len() != self.stores.len() || source > held || !self.stores.iter().zip(first).all(fits) {
            return bad(format!("expected the state of {held} positions, found blocks from {first:?} on"));
        }
        if *held == 0 {
            return Ok(());
        }
        (self.held[seq as usize], self.source[seq as usize]) = (*held, *source);
        self.media[seq as usize].clone_from(media);
        let taken = (0..self.stores.len()).try_for_each(|i| {
            if let Some(beside) = beside.filter(|_| self.is_shared(i)) {
                let Store { rule, pool, tables } = &mut self.stores[i];
                let mut table = tables[beside].clone();
                table.blocks.truncate(rule.end_of(*held));
                table.blocks.iter().for_each(|block| pool.share(*block));
                tables[seq as usize] = table;
                return Ok(());
            }
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

    fn admit_span(&mut self, span: PositionSpan) -> Result<()> {
        let PositionSpan { seq, from, to } = span;
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
                self.changes.push(AdmissionChange::Took { store: i, seq });
            }
        }
        self.changes.push(AdmissionChange::Held { seq, old: held });
        self.held[seq] = held.max(to);
        Ok(())
    }

    fn take(&mut self, store: usize, seq: usize) -> Result<u32> {
        let free = || Error::Request(format!("sequence {seq}: expected a free cache block, found none"));
        self.stores[store].pool.take().ok_or_else(free)
    }

    /// Lets go of the blocks that the rule does not keep from the step on.
    fn pass(&mut self, i: usize, span: PositionSpan) {
        let (Store { rule, pool, tables }, seq) = (&mut self.stores[i], span.seq);
        let (kept, table) = (rule.first_retained_block(span.from), &mut tables[seq]);
        while table.first < kept && !table.blocks.is_empty() {
            let block = table.blocks.remove(0);
            table.first += 1;
            pool.release(block);
            self.changes.push(AdmissionChange::Passed { store: i, seq, block });
        }
    }

    /// Gives the sequence blocks of its own in place of those that it writes to and others hold, too.
    fn copy_shared(&mut self, i: usize, span: PositionSpan) -> Result<()> {
        let (seq, table) = (span.seq, &self.stores[i].tables[span.seq]);
        let (first, end) = (table.first, table.end());
        for at in self.stores[i].rule.written_blocks(span).filter(|at| (first..end).contains(at)) {
            let at = at - first;
            let old = self.stores[i].tables[seq].blocks[at];
            if self.stores[i].pool.holders(old) > 1 {
                let new = self.take(i, seq)?;
                let store = &mut self.stores[i];
                store.tables[seq].blocks[at] = new;
                store.pool.release(old);
                self.changes.push(AdmissionChange::Replaced { store: i, seq, at, old });
                self.copies.push(BlockCopy { store: i, from: old, to: new });
            }
        }
        Ok(())
    }
}
