//! The projector of a model that is served.

use pumex_dialogue::projector::{shape_of, MediumFile, Projector, TextSide};
use pumex_engine::conversation::Feed;
use pumex_gguf::{Gguf, Result};
use pumex_model as model;
use pumex_text::Tokenizer;
use std::ops::Range;

use super::settings::ModelSettings;

/// A projector, and what it has to know of its model.
pub struct Eyes {
    projector: Projector,
    n_embd: usize,
    m_rope: bool,
}

impl Eyes {
    /// Opens the projector of a model, as its settings say.
    ///
    /// # Errors
    /// A projector that cannot be used.
    pub fn open(gguf: &Gguf, settings: &ModelSettings) -> Result<Option<Eyes>> {
        let Some(projector) = settings.projector.as_ref().map(|open| open(gguf)).transpose()?.flatten() else {
            return Ok(None);
        };
        let (n_embd, m_rope) = shape_of(gguf, &model::plan(gguf)?)?;
        Ok(Some(Eyes { projector, n_embd, m_rope }))
    }

    /// Rows that a step must have room for.
    ///
    /// # Errors
    /// Metadata of the projector that cannot be.
    pub fn widest(&self) -> Result<usize> {
        self.projector.widest_group(self.n_embd)
    }

    /// Bytes of a device's memory that the model is to leave to the encoder.
    pub fn reserved_bytes(&self) -> u64 {
        self.projector.reserved_bytes()
    }

    /// Whether it takes pictures, and sounds.
    pub fn takes(&self) -> (bool, bool) {
        (self.projector.sees(), self.projector.hears())
    }

    /// A text's ids with media at its marks; see [`Projector::feed_parts`].
    ///
    /// # Errors
    /// As there.
    pub fn feed(
        &self,
        (text, tokenizer): (&str, &Tokenizer),
        files: &[MediumFile],
        encode: &dyn Fn(Range<usize>, bool) -> Result<Vec<u32>>,
    ) -> Result<Feed> {
        let side = TextSide { tokenizer, n_embd: self.n_embd, m_rope: self.m_rope };
        self.projector.feed_parts(text, files, &side, encode)
    }
}
