//! Positions that rows choose: scores of blocks of positions, then lists. Rows go by as many as there is room for their scores.

use super::dispatch::{Access, Module, Place, Touched};
use super::Lowering;
use crate::policy;
use pumex_plan::{ChoosePositions, General, Op, Plan};
use pumex_shaders::push;

/// Scores that there is room for, unless a single row has more.
const SCORES: usize = 1 << 24;

/// Rows whose scores there is room for.
fn rows_at_once(c: &ChoosePositions, rows: usize) -> usize {
    (SCORES / c.slots.max(1)).clamp(1, rows.max(1))
}

/// Bytes of the scores of a step.
pub(super) fn workspace(plan: &Plan, max_rows: usize) -> usize {
    let of = |op: &Op| match op {
        Op::General(General::ChoosePositions(c)) => 4 * rows_at_once(c, max_rows) * c.slots,
        _ => 0,
    };
    plan.ops.iter().map(of).max().unwrap_or(0)
}

impl Lowering<'_> {
    pub(super) fn choose_positions(&mut self, c: &ChoosePositions) {
        let (state, rows, list) = (self.t.at.states[c.layer], self.shape.rows, c.chosen.list);
        let at_once = rows_at_once(c, rows);
        let (key, _) = self.t.cache_types;
        let kept = Access::all(Place::State(c.layer), key.bytes((self.t.n_ctx * c.dim) as u64));
        let mut reads = vec![self.groups(c.q, c.heads, c.dim), kept];
        reads.extend(c.weights.map(|w| self.groups(w, c.heads, 1)));
        let threads = policy::row_threads(self.t.caps);
        let scored = policy::index_tile(self.t.caps, c.dim);
        for first in (0..rows).step_by(at_once) {
            let push = push::ChoosePositions {
                q: self.at(c.q),
                weights: c.weights.map_or(0, |w| self.at(w)),
                scores: self.t.at.partials,
                list: self.val(list),
                k_cache: state.k,
                params: self.t.at.params,
                q_stride: c.q.stride as u32,
                q_width: self.width(c.q.val) as u32,
                w_stride: c.weights.map_or(0, |w| w.stride as u32),
                w_width: c.weights.map_or(0, |w| self.width(w.val) as u32),
                list_width: self.width(list) as u32,
                heads: c.heads as u32,
                every: c.chosen.every as u32,
                slots: c.slots as u32,
                most: c.chosen.most as u32,
                fills: u32::from(c.chosen.fills),
                first_row: first as u32,
                table_at: state.table_at,
            };
            let constants = vec![
                ("SIZE", scored.size),
                ("GH", scored.heads.min(c.heads as u32)),
                ("WEIGHTS", u32::from(c.weights.is_some())),
                ("K_TYPE", key as u32),
                ("HEAD_DIM", c.dim as u32),
            ];
            let grid = [c.slots.div_ceil(scored.size as usize), at_once.min(rows - first), 1];
            let touched = Touched { reads: reads.clone(), writes: vec![self.split_reduction()] };
            self.emit(Module::of("score_positions"), constants, push, grid, touched);
            let touched = Touched { reads: vec![self.split_reduction()], writes: vec![self.value(list)] };
            let grid = [at_once.min(rows - first), 1, 1];
            self.emit(Module::of("choose_positions"), vec![("SIZE", threads)], push, grid, touched);
        }
    }
}
