//! Hash tables of numbers: tokens by their bytes, merges by the ids of their halves.
//!
//! The tables hold numbers alone; bytes stay where they are. Hashes are seeded anew for each table, so that no file can be made
//! whose tokens all collide.

use std::hash::{BuildHasher, RandomState};

use super::byte_table::ByteTable;

/// No token.
pub const NONE: u32 = u32::MAX;

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide >> 64) as u64 ^ wide as u64
}

fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        state = fold(state ^ word, 0x9e37_79b9_7f4a_7c15);
    }
    let rest = words.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    fold(state ^ rest, seed | 1)
}

fn seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Ids by their bytes.
#[derive(Debug)]
pub struct TokenIndex {
    slots: Vec<u32>,
    seed: u64,
    longest: usize,
}

impl TokenIndex {
    /// A table for at most `n` entries.
    pub fn new(n: usize) -> TokenIndex {
        TokenIndex { slots: vec![NONE; (n * 2 + 2).next_power_of_two()], seed: seed(), longest: 0 }
    }

    /// Adds the text of `id` in `table`, unless that text is there already.
    pub fn insert(&mut self, table: &ByteTable, id: u32) {
        let Some(text) = table.get(id) else { return };
        let mask = self.slots.len() - 1;
        let mut at = hash(self.seed, text) as usize & mask;
        while self.slots[at] != NONE {
            if table.get(self.slots[at]) == Some(text) {
                return;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = id;
        self.longest = self.longest.max(text.len());
    }

    /// The id of a text in `table`, which must be the one that the texts were added from.
    pub fn get(&self, table: &ByteTable, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash(self.seed, text) as usize & mask;
        while self.slots[at] != NONE {
            if table.get(self.slots[at]) == Some(text) {
                return Some(self.slots[at]);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

/// Rank and result of merges, by the ids of their halves.
#[derive(Debug)]
pub struct MergeIndex {
    slots: Vec<(u64, u32, u32)>,
    seed: u64,
}

impl MergeIndex {
    /// A table for at most `n` merges.
    pub fn new(n: usize) -> MergeIndex {
        MergeIndex { slots: vec![(u64::MAX, 0, 0); (n * 2 + 2).next_power_of_two()], seed: seed() }
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = fold(key ^ self.seed, 0x9e37_79b9_7f4a_7c15) as usize & mask;
        while self.slots[at].0 != key && self.slots[at].0 != u64::MAX {
            at = (at + 1) & mask;
        }
        at
    }

    /// Adds a merge of two ids; the first of equal ones counts.
    pub fn insert(&mut self, left: u32, right: u32, rank: u32, merged: u32) {
        let key = u64::from(left) << 32 | u64::from(right);
        let at = self.slot(key);
        if self.slots[at].0 == u64::MAX {
            self.slots[at] = (key, rank, merged);
        }
    }

    /// Rank and result of the merge of two ids.
    pub fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        if left == NONE || right == NONE {
            return None;
        }
        let (key, rank, merged) = self.slots[self.slot(u64::from(left) << 32 | u64::from(right))];
        (key != u64::MAX).then_some((rank, merged))
    }
}
