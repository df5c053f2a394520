//! Attention over positions that an indexer chooses: scores of blocks of positions by small heads of its own, whose keys lie in a cache
//! of their own, and the best blocks of a row.

use super::{Cols, Val};

/// Which of the positions up to its own a row attends to: those of the best blocks, and those behind the last whole block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// `[n, width]`, see [`Chosen::width`]: how many positions the row sees, then which, as bits. Whole blocks come in order.
    pub list: Val,
    /// Positions of blocks that a row sees.
    pub most: usize,
    /// Positions of a block.
    pub every: usize,
    /// Whether as many positions more are seen of the next best block as the last, unfinished one lacks of `every - 1`.
    pub fills: bool,
}

impl Chosen {
    /// Columns of a list.
    pub fn width(&self) -> usize {
        self.most + self.every
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

    /// Whether in a context of so many positions every row sees all.
    pub fn is_idle(&self, n_ctx: usize) -> bool {
        n_ctx / self.every * self.every <= self.most
    }

    /// Positions that a row sees, by its list.
    pub fn listed_positions(list: &[f32]) -> impl Iterator<Item = usize> + '_ {
        let count = list.first().map_or(0, |count| count.to_bits() as usize);
        list.iter().skip(1).take(count).map(|position| position.to_bits() as usize)
    }

    /// Writes the list of a row at `pos` by scores of whole blocks up to there; of equal ones the first are chosen. `order` is room.
    pub fn put(&self, pos: usize, scores: &[f32], order: &mut Vec<u32>, list: &mut [f32]) {
        let mut places = list.iter_mut();
        let mut put = |n: usize| places.next().into_iter().for_each(|place| *place = f32::from_bits(n as u32));
        if self.sees_all(pos) {
            put(pos + 1);
            return (0..=pos).for_each(put);
        }
        let (budget, whole, every) = (self.budget(pos), self.whole(pos), self.every);
        put(budget + (pos + 1) % every);
        best(&scores[..whole], budget.div_ceil(every), budget / every, order);
        let chosen = order.iter().flat_map(|block| (0..every).map(move |i| *block as usize * every + i));
        chosen.take(budget).for_each(&mut put);
        (whole * every..=pos).for_each(put);
    }
}

/// The `count` largest, of equals the first ones: `whole` of them in order, then the next one, if there is one more.
fn best(scores: &[f32], count: usize, whole: usize, order: &mut Vec<u32>) {
    let score = |i: u32| scores[i as usize];
    let larger = |a: &u32, b: &u32| score(*b).total_cmp(&score(*a)).then(a.cmp(b));
    order.clear();
    order.extend(0..scores.len() as u32);
    for keep in [count, whole] {
        if keep > 0 && keep < order.len() {
            order.select_nth_unstable_by(keep - 1, larger);
        }
        order.truncate(count);
    }
    order[..whole.min(count)].sort_unstable();
}

/// Chooses blocks by `Σ_h weight[h] * max(q_h · key, 0)`, without weights by the sum. A block's key is that of its last position in the
/// cache of `layer`.
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
    /// Blocks that a context has.
    pub slots: usize,
    /// What is chosen, and the list that is written.
    pub chosen: Chosen,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Chosen = Chosen { list: Val(0), most: 3, every: 1, fills: false };

    /// What a row sees whose blocks have these scores.
    fn visible_positions(chosen: Chosen, pos: usize, scores: &[f32]) -> Vec<usize> {
        let (mut list, mut order) = (vec![0.0; chosen.width()], Vec::new());
        chosen.put(pos, scores, &mut order, &mut list);
        Chosen::listed_positions(&list).collect()
    }

    #[test]
    fn rows_see_the_best_blocks_and_what_stands_behind_the_last_whole_one() {
        assert_eq!(visible_positions(EACH, 2, &[]), [0, 1, 2]);
        assert_eq!(visible_positions(EACH, 4, &[1.0, 3.0, 1.0, 2.0, 1.0]), [0, 1, 3]);
        let pools = Chosen { most: 4, every: 4, ..EACH };
        assert_eq!(visible_positions(pools, 5, &[9.0]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(visible_positions(pools, 7, &[1.0, 2.0]), [4, 5, 6, 7]);
        assert_eq!(visible_positions(pools, 9, &[2.0, 1.0]), [0, 1, 2, 3, 8, 9]);
    }

    #[test]
    fn what_an_unfinished_block_lacks_goes_to_the_next_best() {
        let fills = Chosen { most: 4, every: 4, fills: true, ..EACH };
        assert_eq!(visible_positions(fills, 11, &[2.0, 1.0, 3.0]), [8, 9, 10, 11, 0, 1, 2]);
        assert_eq!(visible_positions(fills, 12, &[2.0, 1.0, 3.0]), [8, 9, 10, 11, 0, 1, 12]);
        assert_eq!(visible_positions(fills, 14, &[2.0, 1.0, 3.0]), [8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(visible_positions(fills, 15, &[1.0, 1.0, 1.0, 1.0]), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn nothing_is_chosen_where_there_is_room_for_no_more() {
        let pools = Chosen { most: 8, every: 4, ..EACH };
        assert_eq!([8, 11, 12].map(|n| pools.is_idle(n)), [true, true, false]);
        assert!(pools.sees_all(10) && !pools.sees_all(11));
    }
}
