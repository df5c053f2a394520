//! What a store keeps of one sequence, by the store's rule: all positions, those of a window, or one state.

use pumex_plan::KV_BLOCK;

/// Positions that a sequence can go back in a ring, from where its last step started.
pub const RING_BACK: usize = KV_BLOCK;

/// Positions of a sequence that a step writes: `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionSpan {
    /// Which sequence.
    pub seq: usize,
    /// The first.
    pub from: usize,
    /// One past the last.
    pub to: usize,
}

/// What a layer's state keeps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// K and V of all positions, in blocks of [`KV_BLOCK`].
    Paged,
    /// K and V of positions that a row can still attend to: a row at `p` sees those above `p - window`. Blocks that lie wholly
    /// before what a row [`RING_BACK`] positions before the next one would see are free again.
    Ring {
        /// Positions that a row sees, itself included; at least 1.
        window: usize,
    },
    /// One state, which every row replaces: a block that holds no positions.
    Recurrent,
}

/// Blocks of one sequence in one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// Which block of the sequence the first of `blocks` is; above 0 only in a ring.
    pub first: usize,
    /// From that one on, without gaps.
    pub blocks: Vec<u32>,
}

impl BlockTable {
    /// One past the last block of the sequence.
    pub fn end(&self) -> usize {
        self.first + self.blocks.len()
    }
}

impl Rule {
    /// Blocks of the sequence that a step writes to, if it writes the positions of `span`.
    pub fn written_blocks(self, span: PositionSpan) -> std::ops::Range<usize> {
        match self {
            Rule::Paged | Rule::Ring { .. } => span.from / KV_BLOCK..span.to.div_ceil(KV_BLOCK),
            Rule::Recurrent => 0..1,
        }
    }

    /// The first block of the sequence that a row at position `from`, or any after it, reads or writes.
    pub fn first_needed_block(self, from: usize) -> usize {
        match self {
            Rule::Ring { window } => (from + 1).saturating_sub(window) / KV_BLOCK,
            Rule::Paged | Rule::Recurrent => 0,
        }
    }

    /// The first block of the sequence that stays when a step starts at position `from`.
    pub fn first_retained_block(self, from: usize) -> usize {
        self.first_needed_block(from.saturating_sub(RING_BACK))
    }

    /// Blocks of the sequence that positions `0..held` take, freed ones included.
    pub fn end_of(self, held: usize) -> usize {
        match self {
            Rule::Paged | Rule::Ring { .. } => held.div_ceil(KV_BLOCK),
            Rule::Recurrent => usize::from(held > 0),
        }
    }

    /// Most blocks that a sequence takes at a time, of up to `n_ctx` positions in steps of up to `max_rows` rows.
    pub fn most_blocks(self, n_ctx: usize, max_rows: usize) -> usize {
        match self {
            Rule::Paged => n_ctx.div_ceil(KV_BLOCK),
            // What a step sees, and what it could if it went back, may begin and end amid a block.
            Rule::Ring { window } => {
                let reach = (window - 1 + RING_BACK + max_rows).min(n_ctx);
                (reach.div_ceil(KV_BLOCK) + 1).min(n_ctx.div_ceil(KV_BLOCK))
            }
            Rule::Recurrent => 1,
        }
    }

    /// Whether a sequence whose blocks `table` has can go on at `from`, with `held` positions until now: what rows from there
    /// on read is still there.
    pub fn can_go_back(self, table: &BlockTable, held: usize, from: usize) -> bool {
        match self {
            Rule::Paged => true,
            Rule::Ring { .. } => from == 0 || self.first_needed_block(from) >= table.first,
            Rule::Recurrent => from == 0 || from >= held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_takes_a_window_and_a_step_and_no_more_than_the_context() {
        assert_eq!(Rule::Paged.most_blocks(100, 8), 4);
        assert_eq!(Rule::Ring { window: 64 }.most_blocks(4096, 1), 4);
        assert_eq!(Rule::Ring { window: 64 }.most_blocks(4096, 33), 5);
        assert_eq!(Rule::Ring { window: 4096 }.most_blocks(100, 8), 4);
        assert_eq!(Rule::Recurrent.most_blocks(4096, 512), 1);
    }

    #[test]
    fn a_row_needs_its_window() {
        let ring = Rule::Ring { window: 33 };
        // The row at 64 sees 32..=64, the one at 63 sees 31..=63.
        assert_eq!((ring.first_needed_block(63), ring.first_needed_block(64)), (0, 1));
        assert_eq!(
            (Rule::Ring { window: 1 }.first_needed_block(31), Rule::Ring { window: 1 }.first_needed_block(32)),
            (0, 1)
        );
    }
}
