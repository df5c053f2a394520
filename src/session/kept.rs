//! What is kept of a sequence, as far as books tell: how a saved state begins.

use std::io::{Read, Result, Write};

/// Positions of a sequence, and from which of its blocks on each store has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Positions.
    pub held: usize,
    /// Of which so many are those of its source.
    pub source: usize,
    /// By store, the first block of the sequence that is kept.
    pub first: Vec<usize>,
}

impl Kept {
    /// Writes `3 + stores` words of 8 bytes.
    ///
    /// # Errors
    /// What `to` says.
    pub fn write(&self, to: &mut dyn Write) -> Result<()> {
        let head = [self.held, self.source, self.first.len()];
        head.iter().chain(&self.first).try_for_each(|n| to.write_all(&(*n as u64).to_le_bytes()))
    }

    /// Reads what [`Kept::write`] wrote, of so many stores.
    ///
    /// # Errors
    /// What `from` says, and another number of stores.
    pub fn read(stores: usize, from: &mut dyn Read) -> Result<Kept> {
        let mut word = || {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes)?;
            Ok(usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX))
        };
        let (held, source, found) = (word()?, word()?, word()?);
        if found != stores {
            return Err(std::io::Error::other(format!("expected {stores} kinds of state, found {found}")));
        }
        let first = (0..stores).map(|_| word()).collect::<Result<_>>()?;
        Ok(Kept { held, source, first })
    }
}
