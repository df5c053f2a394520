//! One text under a grammar.

use crate::{Error, Result, Vocabulary};
use std::sync::Arc;

/// Follows one text. Any error is final: nothing is allowed behind it.
#[derive(Clone)]
pub struct Matcher {
    vocabulary: Arc<Vocabulary>,
    inner: llguidance::Matcher,
    dropped: Arc<[String]>,
}

impl Matcher {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, inner: llguidance::Matcher) -> Matcher {
        Matcher { vocabulary, inner, dropped: Arc::from([]) }
    }

    /// This matcher, of a source of which `dropped` is not enforced.
    pub fn with_unenforced(self, dropped: Vec<String>) -> Matcher {
        Matcher { dropped: dropped.into(), ..self }
    }

    /// What of its source is not held to, in words.
    pub fn unenforced(&self) -> &[String] {
        &self.dropped
    }

    /// Which ids may come next: a bit for each, from the lowest bit of the first word on. Where the text is over, the ends alone.
    ///
    /// # Errors
    /// A grammar that allows nothing more and has no end here; one over the limits.
    pub fn mask(&mut self) -> Result<Vec<u32>> {
        let found =
            self.inner.compute_mask_or_eos().map_err(|e| Error::from_matcher_error("grammar", &e.to_string()))?;
        let mut words = found.as_slice().to_vec();
        words.resize(self.vocabulary.len().div_ceil(32), 0);
        for (twin, first) in &self.vocabulary.twins {
            let bit = words[*first as usize / 32] >> (first % 32) & 1;
            words[*twin as usize / 32] |= bit << (twin % 32);
        }
        if words.iter().all(|word| *word == 0) {
            return Err(Error::new("grammar: no token of the vocabulary may come next"));
        }
        Ok(words)
    }

    /// Takes the next id.
    ///
    /// # Errors
    /// One that is not allowed; a grammar over the limits.
    pub fn accept(&mut self, id: u32) -> Result<()> {
        if self.is_over() && self.vocabulary.ends.contains(&id) {
            return Ok(());
        }
        let first = self.vocabulary.twins.get(&id).copied().unwrap_or(id);
        let taken = self
            .inner
            .try_consume_tokens(&[first])
            .map_err(|e| Error::from_matcher_error("grammar", &e.to_string()))?;
        match taken {
            1 => Ok(()),
            _ => Err(Error::new(format!("grammar: expected an id that is allowed, found {id}"))),
        }
    }

    /// Takes the last `n` ids back.
    ///
    /// # Errors
    /// Fewer ids than that.
    pub fn rollback(&mut self, n: usize) -> Result<()> {
        self.inner.rollback(n).map_err(|e| Error::from_matcher_error("grammar", &e.to_string()))
    }

    /// Whether the text may end here.
    ///
    /// # Errors
    /// A matcher that has failed.
    pub fn is_complete(&mut self) -> Result<bool> {
        self.inner.is_accepting().map_err(|e| Error::from_matcher_error("grammar", &e.to_string()))
    }

    /// Whether the text must end here.
    pub fn is_over(&self) -> bool {
        self.inner.is_stopped() && !self.inner.is_error()
    }
}
