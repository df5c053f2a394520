//! Blocks of one store with how many sequences hold each of them.

/// Blocks `0..n`, each free or held by one sequence or more. Takes memory for those that were ever held at once, so that a
/// context of billions of positions costs nothing before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPool {
    blocks: usize,
    /// Free ones among those with holders; the last one is taken next, those never held after them.
    freed: Vec<u32>,
    /// `[..blocks]`, sequences that hold each; 0 if it is free.
    holders: Vec<u32>,
}

impl BlockPool {
    /// `n` blocks, all free; the first one taken is block 0.
    pub fn new(n: usize) -> BlockPool {
        BlockPool { blocks: n, freed: Vec::new(), holders: Vec::new() }
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> usize {
        self.blocks - self.holders.len() + self.freed.len()
    }

    /// All blocks.
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Whether there is no block at all.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Sequences that hold `block`.
    pub fn holders(&self, block: u32) -> u32 {
        self.holders.get(block as usize).copied().unwrap_or(0)
    }

    /// A free block, held once from now on; none if there is none.
    pub fn take(&mut self) -> Option<u32> {
        if let Some(block) = self.freed.pop() {
            self.holders[block as usize] = 1;
            return Some(block);
        }
        let block = self.holders.len();
        (block < self.blocks).then(|| self.holders.push(1))?;
        Some(block as u32)
    }

    /// One sequence more holds `block`, which is held already.
    pub fn share(&mut self, block: u32) {
        debug_assert!(self.holders[block as usize] > 0, "a free block is taken, not shared");
        self.holders[block as usize] += 1;
    }

    /// Undoes the last [`BlockPool::release`] that is not undone yet.
    pub fn hold_again(&mut self, block: u32) {
        if self.holders(block) == 0 {
            let taken = self.take();
            debug_assert_eq!(taken, Some(block), "releases are undone in reverse");
        } else {
            self.share(block);
        }
    }

    /// One sequence less holds `block`; the last one frees it.
    pub fn release(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        debug_assert!(*holders > 0, "a free block is released");
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        if self.freed.is_empty() && block as usize + 1 == self.holders.len() {
            self.holders.pop();
        } else {
            self.freed.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_when_its_last_holder_lets_go() {
        let mut pool = BlockPool::new(2);
        assert_eq!((pool.take(), pool.take(), pool.take()), (Some(0), Some(1), None));
        pool.share(0);
        pool.release(0);
        assert_eq!((pool.free(), pool.holders(0)), (0, 1));
        pool.release(0);
        assert_eq!((pool.free(), pool.take()), (1, Some(0)));
    }

    #[test]
    fn a_release_undone_leaves_the_pool_as_it_was() {
        let mut pool = BlockPool::new(4);
        let blocks: Vec<u32> = (0..3).map_while(|_| pool.take()).collect();
        let before = pool.clone();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            order.iter().for_each(|i| pool.release(blocks[*i]));
            assert_eq!(pool.free(), 4);
            order.iter().rev().for_each(|i| pool.hold_again(blocks[*i]));
            assert_eq!(pool, before);
        }
    }

    #[test]
    fn blocks_that_were_never_held_take_no_memory() {
        let mut pool = BlockPool::new(1 << 40);
        assert_eq!((pool.take(), pool.free(), pool.holders.capacity() < 100), (Some(0), (1 << 40) - 1, true));
    }
}
