//! Blocks of the KV cache: which block holds which positions of which sequence. Pure bookkeeping, no device.

pub use crate::plan::KV_BLOCK;
use crate::{Error, Result};

/// Block tables of all sequences over one pool.
#[derive(Debug)]
pub struct Blocks {
    free: Vec<u32>,
    tables: Vec<Vec<u32>>,
    held: Vec<usize>,
}

impl Blocks {
    /// `n_blocks` blocks for `n_seqs` sequences, all free.
    pub fn new(n_blocks: usize, n_seqs: usize) -> Self {
        let free = (0..n_blocks as u32).rev().collect();
        Blocks { free, tables: vec![Vec::new(); n_seqs], held: vec![0; n_seqs] }
    }

    /// Makes room for position `pos` of `seq`, which must be held already or be the next one.
    ///
    /// # Errors
    /// A gap in the sequence, or no block left.
    pub fn hold(&mut self, seq: u32, pos: u32) -> Result<()> {
        let (seq, pos) = (seq as usize, pos as usize);
        if pos > self.held[seq] {
            let what = format!("position {pos} of sequence {seq}: expected at most {}", self.held[seq]);
            return Err(Error::Request(what));
        }
        while self.tables[seq].len() * KV_BLOCK <= pos {
            let Some(block) = self.free.pop() else {
                return Err(Error::Request(format!("sequence {seq}: expected a free cache block, found none")));
            };
            self.tables[seq].push(block);
        }
        self.held[seq] = self.held[seq].max(pos + 1);
        Ok(())
    }

    /// Forgets positions `from..` of `seq`; their blocks become free.
    pub fn forget(&mut self, seq: u32, from: u32) {
        let (seq, from) = (seq as usize, from as usize);
        let keep = from.div_ceil(KV_BLOCK).min(self.tables[seq].len());
        self.free.extend(self.tables[seq].drain(keep..).rev());
        self.held[seq] = self.held[seq].min(from);
    }

    /// The table of a sequence.
    pub fn table(&self, seq: usize) -> &[u32] {
        &self.tables[seq]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_after_forgetting_and_run_out_with_an_error() {
        let mut b = Blocks::new(2, 2);
        for pos in 0..33 {
            b.hold(0, pos).unwrap();
        }
        assert_eq!(b.table(0), [0, 1]);
        assert!(b.hold(1, 0).is_err(), "both blocks are taken");
        assert!(b.hold(0, 40).is_err(), "a gap");
        b.forget(0, 32);
        assert_eq!(b.table(0), [0]);
        b.hold(1, 0).unwrap();
        assert_eq!(b.table(1), [1]);
    }
}
