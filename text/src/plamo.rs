//! The cheapest spelling from the end on: `tokenizer.ggml.model` "plamo2".
//!
//! Scores are rounded to 1/10000; of equal spellings the one with the longest first token counts. A character that no token
//! spells is its bytes, at a high price.

use std::path::Path;

use super::trie::Trie;
use super::vocab::Vocab;
use pumex_gguf::{Error, Result};

/// What a score of 1 is counted as.
const UNIT: f32 = 1e4;
/// Price of a character that is spelt by bytes.
const UNKNOWN: i64 = 10_000_000;
/// Scores at or below do not count.
const INVALID: i64 = -20_000_000;
/// Most bytes whose spellings are weighed together.
const MAX_WEIGHED: usize = 1 << 20;

/// The tokens with their prices.
#[derive(Debug)]
pub struct Plamo {
    tokens: Trie,
    prices: Vec<i64>,
}

impl Plamo {
    /// Takes the vocabulary.
    ///
    /// # Errors
    /// `missing_key` without scores, `bad_vocab` unless every byte has its token.
    pub fn new(path: &Path, vocab: &Vocab) -> Result<Plamo> {
        let scores = vocab.scores().ok_or_else(|| {
            let what = "tokenizer.ggml.scores: missing, expected the scores of a plamo2 vocabulary";
            Error::file(path, "missing_key", what)
        })?;
        if let Some(byte) = (0..=255u8).find(|&byte| vocab.byte(byte).is_none()) {
            let what =
                format!("tokenizer.ggml.tokens: no byte token <0x{byte:02X}>, expected all 256 in a plamo2 vocabulary");
            return Err(Error::file(path, "bad_vocab", what));
        }
        let prices: Vec<i64> = scores.iter().map(|score| -i64::from((score * UNIT).round() as i32)).collect();
        let usable = |&id: &u32| vocab.spells(id) && scores[id as usize].is_finite() && -prices[id as usize] > INVALID;
        let entries = vocab.ids().filter(usable).filter_map(|id| Some((vocab.text(id)?, id))).collect();
        Ok(Plamo { tokens: Trie::new(entries), prices })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub fn encode(&self, vocab: &Vocab, text: &str, ids: &mut Vec<u32>) {
        let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        while !rest.is_empty() {
            let cut = (0..=rest.len().min(MAX_WEIGHED)).rev().find(|&i| rest.is_char_boundary(i)).unwrap_or(rest.len());
            self.spell(vocab, &rest[..cut], ids);
            rest = &rest[cut..];
        }
    }

    fn spell(&self, vocab: &Vocab, text: &str, ids: &mut Vec<u32>) {
        // By start: the price of all from there on, the first token's length, and which that is.
        let mut best: Vec<(i64, u32, Option<u32>)> = vec![(0, 0, None); text.len() + 1];
        for (at, c) in text.char_indices().rev() {
            let len = c.len_utf8();
            let mut champion = (best[at + len].0 + UNKNOWN, len as u32, None);
            self.tokens.prefixes(&text.as_bytes()[at..], |len, id| {
                let price = best[at + len].0 + self.prices[id as usize];
                if price <= champion.0 {
                    champion = (price, len as u32, Some(id));
                }
            });
            best[at] = champion;
        }
        let mut at = 0;
        while at < text.len() {
            let (_, len, id) = best[at];
            let end = at + (len as usize).max(1);
            match id {
                Some(id) => ids.push(id),
                None => ids.extend(text.as_bytes()[at..end].iter().filter_map(|&byte| vocab.byte(byte))),
            }
            at = end;
        }
    }
}
