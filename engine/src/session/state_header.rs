//! What is kept of a sequence, as far as books tell: how a saved state begins.

use super::PlacedMedium;
use std::io::{Read, Result, Write};

/// Most media of a state: each has a position at least, and there are no longer contexts.
const MOST_MEDIA: u64 = 1 << 24;

/// Positions of a sequence, and from which of its blocks on each store has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateHeader {
    /// Positions.
    pub held: usize,
    /// Positions of these that are the source's.
    pub source: usize,
    /// By store, the first block of the sequence that is kept.
    pub first: Vec<usize>,
    /// Media, in order.
    pub media: Vec<PlacedMedium>,
}

impl StateHeader {
    /// Writes `3 + stores` words of 8 bytes, and 4 for each medium. The third has the number of stores, and that of media in its
    /// upper half.
    ///
    /// # Errors
    /// What `to` says.
    pub fn write(&self, to: &mut dyn Write) -> Result<()> {
        let counts = self.first.len() as u64 | (self.media.len() as u64) << 32;
        let media = self.media.iter().flat_map(|m| [m.at as u64, m.n as u64, m.n_pos as u64, m.hash]);
        let head = [self.held as u64, self.source as u64, counts];
        let mut all = head.into_iter().chain(self.first.iter().map(|n| *n as u64)).chain(media);
        all.try_for_each(|n| to.write_all(&n.to_le_bytes()))
    }

    /// Reads what [`StateHeader::write`] wrote, of so many stores.
    ///
    /// # Errors
    /// What `from` says, and another number of stores.
    pub fn read(stores: usize, from: &mut dyn Read) -> Result<StateHeader> {
        let mut word = || -> Result<u64> {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let size = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
        let (held, source, counts) = (size(word()?), size(word()?), word()?);
        let (found, media) = (counts & u64::from(u32::MAX), counts >> 32);
        if found != stores as u64 || media > MOST_MEDIA.min(held as u64) {
            let what = format!("expected {stores} kinds of state, found {found} and {media} media");
            return Err(std::io::Error::other(what));
        }
        let first = (0..stores).map(|_| Ok(size(word()?))).collect::<Result<_>>()?;
        let mut medium =
            || Ok(PlacedMedium { at: size(word()?), n: size(word()?), n_pos: size(word()?), hash: word()? });
        let media = (0..media).map(|_| medium()).collect::<Result<_>>()?;
        Ok(StateHeader { held, source, first, media })
    }
}
