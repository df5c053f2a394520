//! Stretches of DNA in a text: `tokenizer.ggml.model` "hybriddna".
//!
//! Between `<dna>` and `</dna>` six letters are a token; the last ones are filled up with A. In the file these tokens end with
//! U+E000, which tells them from words with the same letters.

use super::vocab::Vocab;
use pumex_gguf::Result;

const OPEN: &str = "<dna>";
const CLOSE: &str = "</dna>";
const LETTERS: usize = 6;
const MARK: char = '\u{e000}';

/// A token's text without the mark of DNA.
pub fn letters(text: &[u8]) -> &[u8] {
    let marked = std::str::from_utf8(text).ok().and_then(|text| text.strip_suffix(MARK));
    marked.filter(|letters| !letters.is_empty()).map_or(text, str::as_bytes)
}

/// The tokens of DNA.
#[derive(Debug)]
pub struct Dna {
    open: u32,
    close: u32,
    unknown: u32,
    words: std::collections::HashMap<[u8; LETTERS], u32>,
}

impl Dna {
    /// Takes the vocabulary; none if it has no such tokens.
    pub fn new(vocab: &Vocab) -> Option<Dna> {
        let find = |text: &str| vocab.find(text.as_bytes());
        let (open, close, unknown) = (find(OPEN)?, find(CLOSE)?, find("<oov>")?);
        let word = |id: u32| Some((vocab.utf8(id)?.strip_suffix(MARK)?.as_bytes().try_into().ok()?, id));
        let words: std::collections::HashMap<_, _> = vocab.ids().filter_map(word).collect();
        Some(Dna { open, close, unknown, words })
    }

    /// Appends the ids of `text`; `other` does what is no DNA.
    ///
    /// # Errors
    /// Those of `other`.
    pub fn encode(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        other: &mut dyn FnMut(&str, &mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            other(before, ids)?;
            ids.push(self.open);
            let closed = after.split_once(CLOSE);
            let (letters, tail) = closed.unwrap_or((after, ""));
            for part in letters.as_bytes().chunks(LETTERS) {
                let mut word = [b'A'; LETTERS];
                word[..part.len()].copy_from_slice(part);
                word.make_ascii_uppercase();
                ids.push(self.words.get(&word).copied().unwrap_or(self.unknown));
            }
            ids.extend(closed.map(|_| self.close));
            rest = tail;
        }
        other(rest, ids)
    }
}
