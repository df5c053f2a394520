//! What a context is too short for: indexers that could choose no fewer positions than there are.

use super::{Access, General, LayerState, Op, Plan};
use std::collections::HashSet;

impl Plan {
    /// Leaves out what chooses positions, with all that it alone reads, where there is room for no more than would be chosen.
    pub(super) fn leave_out_idle(&mut self, n_ctx: usize) {
        let idle = |op: &Op| matches!(op, Op::General(General::ChoosePositions(c)) if c.chosen.is_idle(n_ctx));
        let lists: HashSet<Access> = self.ops.iter().filter(|op| idle(op)).flat_map(Op::writes).collect();
        if lists.is_empty() {
            return;
        }
        let (mut read, mut unread) = (HashSet::new(), HashSet::new());
        let mut goes = vec![false; self.ops.len()];
        for (op, goes) in self.ops.iter().zip(&mut goes).rev() {
            let needless = |to: &Access| unread.contains(to) && !read.contains(to);
            *goes = idle(op) || !op.writes().is_empty() && op.writes().iter().all(needless);
            let of = if *goes { &mut unread } else { &mut read };
            of.extend(op.reads().into_iter().filter(|from| !lists.contains(from)));
        }
        for (end, _) in &mut self.layer_ends {
            *end -= goes.iter().take(*end).filter(|goes| **goes).count();
        }
        let mut goes = goes.into_iter();
        self.ops.retain(|_| !goes.next().unwrap_or(false));
        let touched: HashSet<Access> = self.ops.iter().flat_map(|op| [op.reads(), op.writes()].concat()).collect();
        for (i, layer) in self.layers.iter_mut().enumerate() {
            if unread.contains(&Access::State(i)) && !touched.contains(&Access::State(i)) {
                *layer = LayerState::Nothing;
            }
        }
    }
}
