//! Attention over the last rows of a sequence and over entries that stand for blocks of all of them. Keys are the values too.

use super::{Cols, Weight};

/// A row for each block of `every` rows: `Σ_j softmax_j(score[j] + place[j]) * value[j]` column by column, over the block's rows;
/// of a row that ends no block, zero. Where blocks overlap, each row has columns for the block after its own, then for its own,
/// and an entry is a sum over both blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Values, then scores, of `width` columns each.
    pub x: Cols,
    /// `[every, width]`, added to scores by a row's place in its block.
    pub place: Option<Weight>,
    /// Rows of a block.
    pub every: usize,
    /// Whether blocks overlap.
    pub overlaps: bool,
    /// Columns of an entry.
    pub len: usize,
    /// The layer that keeps the last rows of `x`, `[rows, 2 * width]`.
    pub layer: usize,
    /// Where in its state.
    pub at: usize,
    /// `[n, len]`
    pub out: Cols,
}

impl Pool {
    /// Columns of values and of scores.
    pub fn width(&self) -> usize {
        if self.overlaps {
            2 * self.len
        } else {
            self.len
        }
    }

    /// Rows that an entry is made of, which are those that are kept.
    pub fn rows(&self) -> usize {
        if self.overlaps {
            2 * self.every
        } else {
            self.every
        }
    }
}

/// Entries of blocks of a sequence, which are kept, and seen by rows that stand at the block's end or after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entries {
    /// `[dim]`, of a row that ends a block.
    pub x: Cols,
    /// Rows of a block.
    pub every: usize,
    /// Entries that there is room for.
    pub slots: usize,
    /// Where in the layer's state.
    pub at: usize,
    /// Floats from one to the next.
    pub stride: usize,
}

/// Which entries a row sees: the `most` with the largest `Σ_h weight[h] * max(q_h · entry, 0)`; of equals the first ones. Where
/// there is room for no more than that, nothing is done, and all are seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChooseBlocks {
    /// Heads of `dim` columns.
    pub q: Cols,
    /// A column for each head.
    pub weights: Cols,
    /// Heads.
    pub heads: usize,
    /// Columns of a head and of an entry.
    pub dim: usize,
    /// What heads are multiplied with.
    pub entries: Entries,
    /// The layer that keeps them.
    pub layer: usize,
    /// How many.
    pub most: usize,
    /// A column for each entry: 1 if it is seen, else 0.
    pub out: Cols,
}

/// `out = softmax(q · Kᵀ * scale) · K` over the last `window` rows up to a row's own, which are kept, and over entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttendBlocks {
    /// Heads of `dim` columns.
    pub q: Cols,
    /// `[dim]`, the row's own key.
    pub k: Cols,
    /// Query heads.
    pub heads: usize,
    /// Columns of a head.
    pub dim: usize,
    /// Rows that a row sees, itself included.
    pub window: usize,
    /// The layer that keeps the last keys, `[window, dim]`.
    pub layer: usize,
    /// Where in its state.
    pub at: usize,
    /// Entries of compressed blocks, if there are any.
    pub entries: Option<Entries>,
    /// What [`ChooseBlocks`] gives, and how many it chooses.
    pub chosen: Option<(Cols, usize)>,
    /// `[heads]`: a score per head that takes part in the softmax and has no value.
    pub sinks: Weight,
    /// The factor of the scores.
    pub scale: f32,
    /// Heads of `dim` columns.
    pub out: Cols,
}

impl AttendBlocks {
    /// Which entries are seen, if not all are.
    pub fn visible_entries(&self) -> Option<Cols> {
        let slots = self.entries.map_or(0, |e| e.slots);
        self.chosen.filter(|(_, most)| slots > *most).map(|(cols, _)| cols)
    }
}
