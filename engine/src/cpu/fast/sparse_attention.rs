//! Positions that rows choose, and attention over these alone.

use super::state::place_of;
use super::Fast;
use crate::session::KV_BLOCK;
use pumex_cpu::attention::{Cache, CacheWrite, IndexerHeads, Queries, RowRun, ScoreRules, VisibleRange};
use pumex_plan::{AttentionSpec, ChoosePositions, Chosen, Cols, Val};
use pumex_step::Row;

/// Scores that are there at a time, unless a single row has more.
const SCORES: usize = 1 << 22;

/// What rows that choose positions need to work in.
#[derive(Default)]
pub(super) struct SparseAttentionScratch {
    /// Scores of blocks, row by row.
    scores: Vec<f32>,
    /// Keys and values of the positions of one row.
    gathered: Option<Cache>,
}

impl Fast<'_> {
    pub(super) fn choose_positions(&mut self, c: &ChoosePositions, rows: &[Row]) {
        let (chosen, width) = (c.chosen, self.width(c.chosen.list));
        let mut lists = self.room(chosen.list, rows.len());
        let whole = |row: &Row| if chosen.sees_all(row.pos as usize) { 0 } else { chosen.whole(row.pos as usize) };
        // A task has the blocks of positions that end in one block of the cache, or a single one.
        let task = (KV_BLOCK / chosen.every).max(1);
        let stride = rows.iter().map(whole).max().unwrap_or(0).next_multiple_of(task);
        let at_once = (SCORES / stride.max(1)).max(1);
        let mut scores = std::mem::take(&mut self.chosen.scores);
        for (rows, (first, lists)) in
            rows.chunks(at_once).zip((0..).step_by(at_once).zip(lists.chunks_mut(at_once * width)))
        {
            scores.resize(scores.len().max(rows.len() * stride), 0.0);
            if let Some(cache) = self.state.caches[c.layer].as_ref().filter(|_| stride > 0) {
                self.cpu.rows(&mut scores[..rows.len() * stride], task, &|i, out| {
                    let (row, from) = (i * task / stride, i * task % stride);
                    let end = whole(&rows[row]).min(from + task);
                    if from >= end {
                        return;
                    }
                    let table = self.session.blocks().table(0, rows[row].seq as usize);
                    let weights = c.weights.map(|w| self.cols(w, first + row, c.heads));
                    let index =
                        IndexerHeads { q: self.cols(c.q, first + row, c.heads * c.dim), heads: c.heads, weights };
                    let place = |block: usize| place_of(table, (block + 1) * chosen.every - 1);
                    cache.index(self.cpu.isa, &index, (from..end).map(place), out);
                });
            }
            self.cpu.rows(lists, width, &|row, list| {
                let scores = &scores[row * stride..][..whole(&rows[row])];
                chosen.put(rows[row].pos as usize, scores, &mut Vec::new(), list);
            });
        }
        self.chosen.scores = scores;
        self.put(chosen.list, lists);
    }

    /// Columns of a row, of groups that lie side by side.
    fn cols(&self, from: Cols, row: usize, len: usize) -> &[f32] {
        &self.values[from.val.0][row * self.width(from.val) + from.at..][..len]
    }

    /// Attention of each row by itself, over keys and values of the positions that are chosen for it, brought together.
    pub(super) fn attend_chosen(
        &mut self,
        qkv: Val,
        (spec, chosen): (&AttentionSpec, Chosen),
        scale: f32,
        out: Val,
        rows: &[Row],
    ) {
        let (mut result, width) = (self.room(out, rows.len()), self.width(chosen.list));
        let sinks = spec.sinks.map(|w| self.weights.vector(w));
        let scores = ScoreRules { heads: spec.heads, scale, soft_cap: spec.soft_cap, sinks, slopes: &[], biases: &[] };
        let each = spec.heads * spec.v_dim;
        let Some(cache) = &self.state.caches[spec.layer] else { return self.put(out, result) };
        let mut gathered =
            self.chosen.gathered.take().filter(|g| g.is_like(cache)).unwrap_or_else(|| cache.empty_like());
        for (i, (row, result)) in rows.iter().zip(result.chunks_exact_mut(each)).enumerate() {
            let table = self.session.blocks().table(0, row.seq as usize);
            let listed = Chosen::listed_positions(&self.values[chosen.list.0][i * width..][..width]);
            let places: Vec<CacheWrite> = listed.map(|pos| place_of(table, pos)).collect();
            gathered.gather(&self.cpu, cache, &places);
            let blocks: Vec<u32> = (0..places.len().div_ceil(KV_BLOCK) as u32).collect();
            let run = RowRun { row: 0, rows: 1, blocks: &blocks, first_block: 0 };
            let last = places.len().saturating_sub(1);
            let seen = VisibleRange { pos: last, first: 0, last };
            let q = Queries { rows: &self.values[qkv.0][i * spec.qkv_width()..], width: spec.qkv_width() };
            self.cpu.attend(&gathered, &scores, q, &[run], &[seen], &mut self.work, result);
        }
        self.chosen.gathered = Some(gathered);
        self.put(out, result);
    }
}
