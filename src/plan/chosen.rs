//! Attention over positions that an indexer chooses: scores of blocks of positions by small heads of its own, whose keys lie in a cache
//! of their own, and the best blocks of a row.

use super::{Cols, Val};

/// Which of the positions up to its own a row attends to: those of the best blocks, and those behind the last whole block. A list has
/// numbers of blocks as bits: whole ones in the order of their positions, then one of which only the first positions are seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// `[n, blocks]`, see [`Chosen::blocks`]. Of rows that see all of their positions it says nothing.
    pub list: Val,
    /// Positions of blocks that a row sees.
    pub most: usize,
    /// Positions of a block.
    pub every: usize,
    /// Whether as many positions more are seen of the next best block as the last, unfinished one lacks of `every - 1`.
    pub fills: bool,
}

impl Chosen {
    /// Blocks of the longest list.
    pub fn blocks(&self) -> usize {
        (self.most + if self.fills { self.every - 1 } else { 0 }).div_ceil(self.every)
    }

    /// Positions of blocks that a row at `pos` may see.
    pub fn budget(&self, pos: usize) -> usize {
        self.most + if self.fills { self.every - 1 - (pos + 1) % self.every } else { 0 }
    }

    /// Whole blocks up to a row's position.
    pub fn whole(&self, pos: usize) -> usize {
        (pos + 1) / self.every
    }

    /// Whether a row at `pos` sees all positions up to its own.
    pub fn sees_all(&self, pos: usize) -> bool {
        self.whole(pos) * self.every <= self.budget(pos)
    }

    /// Positions that a row at `pos` sees.
    pub fn count(&self, pos: usize) -> usize {
        if self.sees_all(pos) {
            return pos + 1;
        }
        self.budget(pos) + (pos + 1) % self.every
    }

    /// The `i`-th of them, by the row's list.
    pub fn position(&self, pos: usize, list: &[f32], i: usize) -> usize {
        if self.sees_all(pos) {
            return i;
        }
        match i.checked_sub(self.budget(pos)) {
            Some(behind) => self.whole(pos) * self.every + behind,
            None => list[i / self.every].to_bits() as usize * self.every + i % self.every,
        }
    }

    /// Whether in a context of so many positions every row sees all.
    pub fn is_idle(&self, n_ctx: usize) -> bool {
        n_ctx / self.every * self.every <= self.most
    }
}

/// Chooses blocks by `Σ_h weight[h] * max(q_h · key, 0)`, without weights by the sum; of equals the first ones. A block's key is that
/// of its last position in the cache of `layer`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoosePositions {
    /// Heads of `dim` columns.
    pub q: Cols,
    /// A column for each head.
    pub weights: Option<Cols>,
    /// Heads.
    pub heads: usize,
    /// Columns of a head and of a key.
    pub dim: usize,
    /// The layer that keeps keys, without values.
    pub layer: usize,
    /// What is chosen, and the list that is written.
    pub chosen: Chosen,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(chosen: Chosen, pos: usize, list: &[u32]) -> Vec<usize> {
        let list: Vec<f32> = list.iter().map(|b| f32::from_bits(*b)).collect();
        (0..chosen.count(pos)).map(|i| chosen.position(pos, &list, i)).collect()
    }

    #[test]
    fn rows_see_the_best_blocks_and_what_stands_behind_the_last_whole_one() {
        let each = Chosen { list: Val(0), most: 3, every: 1, fills: false };
        assert_eq!((each.blocks(), seen(each, 2, &[])), (3, vec![0, 1, 2]));
        assert_eq!(seen(each, 9, &[1, 4, 9]), [1, 4, 9]);
        let pools = Chosen { most: 4, every: 4, ..each };
        assert_eq!(seen(pools, 5, &[]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(seen(pools, 7, &[1]), [4, 5, 6, 7]);
        assert_eq!(seen(pools, 9, &[0]), [0, 1, 2, 3, 8, 9]);
    }

    #[test]
    fn what_an_unfinished_block_lacks_goes_to_the_next_best() {
        let fills = Chosen { list: Val(0), most: 4, every: 4, fills: true };
        assert_eq!(fills.blocks(), 2);
        assert_eq!(seen(fills, 11, &[2, 0]), [8, 9, 10, 11, 0, 1, 2]);
        assert_eq!(seen(fills, 12, &[2, 0]), [8, 9, 10, 11, 0, 1, 12]);
        assert_eq!(seen(fills, 14, &[2, 0]), [8, 9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn nothing_is_chosen_where_there_is_room_for_no_more() {
        let pools = Chosen { list: Val(0), most: 8, every: 4, fills: false };
        assert_eq!([8, 11, 12].map(|n| pools.is_idle(n)), [true, true, false]);
        assert!(pools.sees_all(10) && !pools.sees_all(11));
    }
}
