//! Blocks of one store with how many sequences hold each of them.

/// Blocks `0..n`, each free or held by one sequence or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The last one is taken next.
    free: Vec<u32>,
    /// `[blocks]`, sequences that hold each; 0 if it is free.
    holders: Vec<u32>,
}

impl Pool {
    /// `n` blocks, all free; the first one taken is block 0.
    pub fn new(n: usize) -> Pool {
        Pool { free: (0..n as u32).rev().collect(), holders: vec![0; n] }
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// All blocks.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether there is no block at all.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Sequences that hold `block`.
    pub fn holders(&self, block: u32) -> u32 {
        self.holders[block as usize]
    }

    /// A free block, held once from now on; none if there is none.
    pub fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.holders[block as usize] = 1;
        Some(block)
    }

    /// One sequence more holds `block`, which is held already.
    pub fn share(&mut self, block: u32) {
        debug_assert!(self.holders[block as usize] > 0, "a free block is taken, not shared");
        self.holders[block as usize] += 1;
    }

    /// Undoes the last [`Pool::release`] that is not undone yet.
    pub fn hold_again(&mut self, block: u32) {
        if self.holders[block as usize] == 0 {
            let freed = self.free.pop();
            debug_assert_eq!(freed, Some(block), "releases are undone in reverse");
        }
        self.holders[block as usize] += 1;
    }

    /// One sequence less holds `block`; the last one frees it.
    pub fn release(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        debug_assert!(*holders > 0, "a free block is released");
        *holders -= 1;
        if *holders == 0 {
            self.free.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_when_its_last_holder_lets_go() {
        let mut pool = Pool::new(2);
        assert_eq!((pool.take(), pool.take(), pool.take()), (Some(0), Some(1), None));
        pool.share(0);
        pool.release(0);
        assert_eq!((pool.free(), pool.holders(0)), (0, 1));
        pool.release(0);
        assert_eq!((pool.free(), pool.take()), (1, Some(0)));
    }
}
