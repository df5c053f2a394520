//! Attention over a cache of blocks of positions.
//!
//! An item is some rows of a sequence with all query heads that share a key/value head, so that a block is read once for all of
//! them; the softmax goes along with the blocks. Few rows over many positions are cut into spans of fixed length, whose results
//! are joined afterwards: the same whatever the number of threads.

mod cache;
mod item;
mod prefetch;
mod sparse;

pub use cache::{Cache, CacheWrite, Elements};
pub use sparse::IndexerHeads;

use crate::buffer::DisjointParts;
use crate::Cpu;
use item::{AttentionItem, AttentionRules};

/// Positions of a block.
pub const BLOCK: usize = 32;
/// Blocks of a span.
const SPAN: usize = 16;
/// Queries of an item.
const QUERIES: usize = 32;

/// Heads, and what is done to scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoreRules<'a> {
    /// Query heads, a multiple of the cache's heads.
    pub heads: usize,
    /// The factor of the scores, `1 / sqrt(head_dim)` in most models.
    pub scale: f32,
    /// Scores become `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// `[heads]`: a score that takes part in the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
    /// `[heads]`: what a score loses per position of distance; empty for nothing.
    pub slopes: &'a [f32],
    /// `[heads, 2 * reach + 1]`: what is added to a score by how far behind the row's own position the other lies, from `-reach`
    /// on, beyond which it stays the same; empty for nothing.
    pub biases: &'a [f32],
}

impl ScoreRules<'_> {
    /// What a head's scores change by.
    fn bias(&self, head: usize) -> Bias<'_> {
        let width = self.biases.len() / self.heads.max(1);
        Bias { slope: self.slopes.get(head).copied().unwrap_or(0.0), table: &self.biases[head * width..][..width] }
    }
}

/// What scores of a head change by, with distance.
#[derive(Clone, Copy)]
struct Bias<'a> {
    /// They lose so much for each position.
    slope: f32,
    /// `[2 * reach + 1]`, or empty.
    table: &'a [f32],
}

impl Bias<'_> {
    /// Changes scores of the positions from `at` on, of a row at `own`.
    fn add(self, scores: &mut [f32], at: usize, own: usize) {
        if self.slope != 0.0 {
            scores.iter_mut().enumerate().for_each(|(j, p)| *p -= self.slope * own.abs_diff(at + j) as f32);
        }
        let Some(last) = self.table.len().checked_sub(1) else { return };
        for (j, p) in scores.iter_mut().enumerate() {
            // Where `own` is, half of the table lies before it.
            let place = (at + j + last / 2).saturating_sub(own).min(last);
            *p += self.table[place];
        }
    }
}

/// What a row sees of its sequence.
#[derive(Clone, Copy, Debug)]
pub struct VisibleRange {
    /// Its own position.
    pub pos: usize,
    /// The first position.
    pub first: usize,
    /// The last one.
    pub last: usize,
}

/// Rows of one sequence that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct RowRun<'a> {
    /// The first row.
    pub row: usize,
    /// How many.
    pub rows: usize,
    /// Blocks of the cache, by number of the sequence's block.
    pub blocks: &'a [u32],
    /// Number of the first of them.
    pub first_block: usize,
}

/// An item of the list.
#[derive(Clone, Copy, Debug)]
struct Item {
    run: usize,
    row: usize,
    rows: usize,
    kv_head: usize,
    /// Blocks of the sequence.
    from: usize,
    to: usize,
    /// Where its part of the result lies, if it is one of several.
    partial: Option<usize>,
}

/// Lists and results that are kept from step to step, so that steps need no new memory.
#[derive(Default)]
pub struct AttentionWorkspace {
    items: Vec<Item>,
    /// First partial of a split item, and how many; row and head.
    joins: Vec<(usize, usize, usize, usize)>,
    partials: Vec<f32>,
}

/// Queries as rows `[rows, width]`, each of which begins with `heads` times the keys' width.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    /// All rows.
    pub rows: &'a [f32],
    /// Floats from row to row.
    pub width: usize,
}

impl AttentionWorkspace {
    fn plan(&mut self, cache: &Cache, scores: &ScoreRules<'_>, runs: &[RowRun<'_>], seen: &[VisibleRange]) {
        self.items.clear();
        self.joins.clear();
        let (mut partials, group) = (0, scores.heads / cache.kv_heads);
        for (r, run) in runs.iter().enumerate() {
            let most = (QUERIES / group).max(1);
            for at in (0..run.rows).step_by(most) {
                let (row, rows) = (run.row + at, most.min(run.rows - at));
                let of = &seen[row..row + rows];
                let from = of.iter().map(|s| s.first).min().unwrap_or(0) / BLOCK;
                let to = of.iter().map(|s| s.last).max().unwrap_or(0) / BLOCK + 1;
                let spans = if rows == 1 { (to - from).div_ceil(SPAN) } else { 1 };
                for kv_head in 0..cache.kv_heads {
                    if spans > 1 {
                        self.joins.push((partials, spans, row, kv_head));
                    }
                    for span in 0..spans {
                        let (from, to) =
                            if spans > 1 { (from + span * SPAN, to.min(from + (span + 1) * SPAN)) } else { (from, to) };
                        let partial = (spans > 1).then_some(partials);
                        partials += usize::from(spans > 1);
                        self.items.push(Item { run: r, row, rows, kv_head, from, to, partial });
                    }
                }
            }
        }
        let len = partials * group * (cache.v_pad() + 2);
        if self.partials.len() < len {
            self.partials.resize(len, 0.0);
        }
    }
}

impl Cpu {
    /// `out [rows, heads * v_dim] = softmax(q · Kᵀ) · V` for rows `seen`, which `runs` have in order.
    ///
    /// # Panics
    /// If shapes do not fit, or a block is not in the cache.
    pub fn attend(
        &self,
        cache: &Cache,
        scores: &ScoreRules<'_>,
        q: Queries<'_>,
        runs: &[RowRun<'_>],
        seen: &[VisibleRange],
        work: &mut AttentionWorkspace,
        out: &mut [f32],
    ) {
        let (group, v_dim, v_pad) = (scores.heads / cache.kv_heads, cache.v_dim, cache.v_pad());
        assert!(scores.heads == group * cache.kv_heads, "heads that share");
        assert!(q.rows.len() >= seen.len() * q.width && q.width >= scores.heads * cache.k_dim, "queries of all rows");
        assert!(out.len() >= seen.len() * scores.heads * v_dim, "room for all rows");
        work.plan(cache, scores, runs, seen);
        let rules = AttentionRules { group, scores };
        let (items, stride) = (&work.items, group * (v_pad + 2));
        let (outs, partials) = (DisjointParts::new(out), DisjointParts::new(&mut work.partials));
        self.pool.each(items.len(), &|i| {
            let item = &items[i];
            let run = &runs[item.run];
            let job = AttentionItem {
                cache,
                blocks: &run.blocks[item.from - run.first_block..item.to - run.first_block],
                from: item.from * BLOCK,
                kv_head: item.kv_head,
                seen: &seen[item.row..item.row + item.rows],
                q: Queries { rows: &q.rows[item.row * q.width..], width: q.width },
            };
            item::run(self.isa, &rules, &job, &mut |row, head, result, most, sum| match item.partial {
                Some(partial) => {
                    // SAFETY: every split item has a partial of its own.
                    let to = unsafe { partials.part(partial * stride + head * (v_pad + 2), v_pad + 2) };
                    to[..v_pad].copy_from_slice(result);
                    (to[v_pad], to[v_pad + 1]) = (most, sum);
                }
                None => {
                    let h = item.kv_head * group + head;
                    let (most, sum) = rules.with_sink(h, most, sum);
                    let at = ((item.row + row) * scores.heads + h) * v_dim;
                    // SAFETY: an item that is not split has these heads of these rows alone.
                    let to = unsafe { outs.part(at, v_dim) };
                    let scale = most / sum;
                    to.iter_mut().zip(result).for_each(|(o, r)| *o = r * scale);
                }
            });
        });
        for &(partial, spans, row, kv_head) in &work.joins {
            for head in 0..group {
                let part = |span: usize| &work.partials[(partial + span) * stride + head * (v_pad + 2)..][..v_pad + 2];
                let most = (0..spans).map(|s| part(s)[v_pad]).fold(f32::NEG_INFINITY, f32::max);
                let weight =
                    |span: usize| if most == f32::NEG_INFINITY { 0.0 } else { (part(span)[v_pad] - most).exp() };
                let sum = (0..spans).map(|s| weight(s) * part(s)[v_pad + 1]).sum();
                let h = kv_head * group + head;
                let (scale, sum) = rules.with_sink(h, most, sum);
                // SAFETY: the loop above has ended; nobody else writes.
                let to = unsafe { outs.part((row * scores.heads + h) * v_dim, v_dim) };
                to.fill(0.0);
                for span in 0..spans {
                    let w = weight(span) * scale / sum;
                    to.iter_mut().zip(part(span)).for_each(|(o, r)| *o += r * w);
                }
            }
        }
    }
}
