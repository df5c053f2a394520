//! What sequences keep: keys and values by layer, and what a step needs to find and rotate them.

use crate::session::{BlockAllocator, BlockTable, KV_BLOCK};
use pumex_cpu::attention::{Cache, CacheWrite, Elements, VisibleRange};
use pumex_plan::{AttentionSpec, Extent, GroupSight, Op, Plan};
use pumex_step::Row;

/// Rows of one sequence that follow each other in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSpan {
    pub row: usize,
    pub rows: usize,
    pub seq: usize,
}

/// Keys and values, and the tables of the step that runs.
pub(super) struct CacheState {
    /// By layer, if it keeps some.
    pub caches: Vec<Option<Cache>>,
    /// By table of RoPE: sine and cosine of each pair, `[rows, pairs]`.
    pub angles: Vec<Vec<(f32, f32)>>,
    /// By table, whether something is rotated by it: others are biases of attention.
    rotates: Vec<bool>,
    pub places: Vec<CacheWrite>,
    pub spans: Vec<RowSpan>,
    pub seen: Vec<VisibleRange>,
    /// The slope of each head, if scores fall with distance (ALiBi).
    pub slopes: Vec<f32>,
}

impl CacheState {
    pub fn new(plan: &Plan, (k, v): (Elements, Elements)) -> CacheState {
        let cache =
            |layer: &pumex_plan::LayerState| layer.kv().map(|kv| Cache::new(kv.kv_heads, (kv.k_dim, k), (kv.v_dim, v)));
        CacheState {
            caches: plan.layers.iter().map(cache).collect(),
            angles: vec![Vec::new(); plan.ropes.len()],
            rotates: (0..plan.ropes.len()).map(|table| plan.ops.iter().any(|op| rotates(op, table))).collect(),
            places: Vec::new(),
            spans: Vec::new(),
            seen: Vec::new(),
            slopes: Vec::new(),
        }
    }

    /// Prepares for a step of these rows, which the session has admitted, and their positions in the four streams.
    pub fn start(&mut self, plan: &Plan, blocks: &BlockAllocator, rows: &[Row], positions: &[[u32; 4]]) {
        // Others are those of recurrent states, which are no blocks here.
        for copy in blocks.copies().iter().filter(|copy| copy.store == 0) {
            self.caches.iter_mut().flatten().for_each(|cache| cache.copy(copy.from, copy.to));
        }
        let place = |row: &Row| place_of(blocks.table(0, row.seq as usize), row.pos as usize);
        self.places.clear();
        self.places.extend(rows.iter().map(place));
        self.spans.clear();
        for (i, row) in rows.iter().enumerate() {
            let seq = row.seq as usize;
            match self.spans.last_mut() {
                Some(span) if span.seq == seq => span.rows += 1,
                _ => self.spans.push(RowSpan { row: i, rows: 1, seq }),
            }
        }
        let tables = self.angles.iter_mut().zip(&plan.ropes).zip(&self.rotates).filter(|(_, rotates)| **rotates);
        for ((angles, table), _) in tables {
            angles.clear();
            let of = |own: &[u32; 4], pair: usize| own[plan.stream(pair)] as f32;
            let turns = |own: &[u32; 4], angles: &mut Vec<(f32, f32)>| {
                angles.extend(table.iter().enumerate().map(|(pair, freq)| (of(own, pair) * freq).sin_cos()));
            };
            positions.iter().for_each(|own| turns(own, angles));
        }
    }

    /// Sets what each row sees of its sequence, and how scores fall.
    pub fn look(&mut self, spec: &AttentionSpec, sight: GroupSight, blocks: &BlockAllocator, rows: &[Row]) {
        let seen = |row: &Row| {
            let pos = row.pos as usize;
            let extent = Extent { held: blocks.sequence_len(row.seq), source: blocks.source(row.seq) };
            let seen = (spec.mask.first(pos, extent), spec.mask.last(pos, extent));
            let (first, last) = sight.of(spec.mask, seen, row.group());
            VisibleRange { pos, first, last }
        };
        self.seen.clear();
        self.seen.extend(rows.iter().map(seen));
        self.slopes.clear();
        self.slopes.extend((0..spec.heads).filter(|_| spec.alibi.is_some()).map(|h| spec.slope(h)));
    }
}

/// Where a position of a sequence is.
pub(super) fn place_of(table: &BlockTable, pos: usize) -> CacheWrite {
    CacheWrite { block: table.blocks[pos / KV_BLOCK - table.first], offset: pos % KV_BLOCK }
}

/// Whether an op rotates by a table.
fn rotates(op: &Op, table: usize) -> bool {
    matches!(op, Op::RopeKv { rope, .. } if rope.rope.dims > 0 && rope.rope.table == table)
}
