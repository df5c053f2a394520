//! Merging the symbols of one word, best merge first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::{MergeIndex, NONE};

/// A word's symbols: ids, each with where it starts. Merging makes them fewer.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Ids; `NONE` for what is no token.
    pub ids: Vec<u32>,
    /// Where each starts, bytes.
    pub starts: Vec<u32>,
    ranks: Vec<u32>,
}

/// Up to this many symbols, looking at all ranks is faster than a heap.
const FEW: usize = 40;

impl Symbols {
    /// Forgets all symbols.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.starts.clear();
    }

    /// Appends a symbol.
    pub fn push(&mut self, id: u32, start: usize) {
        self.ids.push(id);
        self.starts.push(start as u32);
    }

    /// Merges neighbours, lowest rank first and leftmost among equals, until there is nothing left to merge.
    pub fn merge(&mut self, pairs: &MergeIndex) {
        if self.ids.len() <= FEW {
            self.merge_few(pairs);
        } else {
            self.merge_many(pairs);
        }
    }

    fn merge_few(&mut self, pairs: &MergeIndex) {
        let rank = |left: u32, right: u32| pairs.get(left, right).map_or(NONE, |(rank, _)| rank);
        self.ranks.clear();
        self.ranks.extend(self.ids.windows(2).map(|pair| rank(pair[0], pair[1])));
        while let Some((at, _)) =
            self.ranks.iter().enumerate().min_by_key(|(_, &rank)| rank).filter(|(_, &r)| r != NONE)
        {
            let Some((_, merged)) = pairs.get(self.ids[at], self.ids[at + 1]) else { break };
            self.ids[at] = merged;
            self.ids.remove(at + 1);
            self.starts.remove(at + 1);
            self.ranks.remove(at);
            if at > 0 {
                self.ranks[at - 1] = rank(self.ids[at - 1], merged);
            }
            if at < self.ranks.len() {
                self.ranks[at] = rank(merged, self.ids[at + 1]);
            }
        }
    }

    fn merge_many(&mut self, pairs: &MergeIndex) {
        let n = self.ids.len();
        let mut links: Vec<(u32, u32)> = (0..n as u32).map(|i| (i.wrapping_sub(1), i + 1)).collect();
        let mut dead = vec![false; n];
        // Rank and place, and the ids that it was found for.
        let mut heap: BinaryHeap<Reverse<(u32, u32, u32, u32)>> = BinaryHeap::with_capacity(n);
        let found = |ids: &[u32], left: usize, right: usize| {
            let (rank, _) = pairs.get(ids[left], ids[right])?;
            Some(Reverse((rank, left as u32, ids[left], ids[right])))
        };
        heap.extend((1..n).filter_map(|i| found(&self.ids, i - 1, i)));
        while let Some(Reverse((_, left, left_id, right_id))) = heap.pop() {
            let left = left as usize;
            let right = links[left].1 as usize;
            if dead[left] || right >= n || self.ids[left] != left_id || self.ids[right] != right_id {
                continue;
            }
            let Some((_, merged)) = pairs.get(left_id, right_id) else { continue };
            self.ids[left] = merged;
            dead[right] = true;
            let after = links[right].1;
            links[left].1 = after;
            if (after as usize) < n {
                links[after as usize].0 = left as u32;
                heap.extend(found(&self.ids, left, after as usize));
            }
            let before = links[left].0 as usize;
            if before < n {
                heap.extend(found(&self.ids, before, left));
            }
        }
        let mut alive = dead.iter().map(|dead| !dead);
        self.ids.retain(|_| alive.next().unwrap_or(true));
        let mut alive = dead.iter().map(|dead| !dead);
        self.starts.retain(|_| alive.next().unwrap_or(true));
    }
}
