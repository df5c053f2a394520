//! WordPiece: `tokenizer.ggml.model` "bert".
//!
//! Text is cleaned, lowered and rid of accents as the file says, and cut at spaces, around punctuation and around Chinese
//! characters. A word, with U+2581 before it, becomes the longest tokens that spell it from its start on; one that has no such
//! spelling is the unknown token.

use std::collections::HashMap;

use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::spm::SPACE;
use super::vocab::Vocab;
use crate::gguf::Gguf;
use crate::Result;

/// The tokens by their text, and what is done to text before.
pub struct Words {
    ids: HashMap<Vec<u8>, u32>,
    longest: usize,
    normalizer: BertNormalizer,
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("tokens", &self.ids.len()).finish()
    }
}

impl Words {
    /// Takes the vocabulary and the keys of the normalizer.
    ///
    /// # Errors
    /// `bad_key_type`.
    pub fn new(gguf: &Gguf, vocab: &Vocab) -> Result<Words> {
        let flag = |name: &str| gguf.meta().opt_bool(&format!("tokenizer.ggml.normalizer.{name}"));
        let lowercase = flag("lowercase")?.unwrap_or(true);
        let normalizer = BertNormalizer::new(true, true, Some(flag("strip_accents")?.unwrap_or(lowercase)), lowercase);
        let ids: HashMap<Vec<u8>, u32> = vocab
            .ids()
            .filter_map(|id| Some((vocab.text(id)?.to_vec(), id)))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        Ok(Words { longest: ids.keys().map(Vec::len).max().unwrap_or(0), ids, normalizer })
    }

    /// Appends the ids of `text`, which holds no special tokens; `unknown` stands for words that cannot be spelt.
    pub fn encode(&self, text: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        let mut clean = NormalizedString::from(text);
        let mut cut = match self.normalizer.normalize(&mut clean) {
            Ok(()) => PreTokenizedString::from(clean),
            Err(_) => PreTokenizedString::from(text), // it has no way to fail
        };
        let _ = BertPreTokenizer.pre_tokenize(&mut cut); // nor has this
        for (word, _, _) in cut.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            let before = ids.len();
            if !self.spell(word, ids) {
                ids.truncate(before);
                ids.extend(unknown);
            }
        }
    }

    /// Whether tokens spell the word; appends them.
    fn spell(&self, word: &str, ids: &mut Vec<u32>) -> bool {
        let word = format!("{SPACE}{word}");
        let (bytes, mut at) = (word.as_bytes(), 0);
        while at < bytes.len() {
            let most = bytes.len().min(at + self.longest);
            let found = (at + 1..=most).rev().find_map(|end| Some((end, *self.ids.get(&bytes[at..end])?)));
            let Some((end, id)) = found else { return false };
            ids.push(id);
            at = end;
        }
        true
    }
}
