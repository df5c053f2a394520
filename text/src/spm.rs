//! SentencePiece-style BPE with byte fallback: `tokenizer.ggml.model` "llama".
//!
//! The file has scores but no merges: neighbours merge if both together are a token, the best score first. Takes the vocabulary;
//! gives ids for text. Spaces are written as U+2581, and characters without a token fall back to byte tokens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use super::index::TokenIndex;
use super::split;
use super::vocab::Vocab;
use pumex_gguf::{Error, Result};

/// What a space is written as.
pub const SPACE: char = '\u{2581}';

/// The tokens that merging may meet.
#[derive(Debug)]
pub struct Spm {
    index: TokenIndex,
    /// No token has a space after a letter, so words can be encoded one by one with the same result.
    by_word: bool,
}

/// A stretch of the text; empty once it is part of the one before.
#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    len: u32,
    before: u32,
    after: u32,
}

/// Room for one word, used again.
#[derive(Default)]
struct MergeScratch {
    symbols: Vec<Symbol>,
    /// Score as ordered bits, place, length of both together.
    heap: BinaryHeap<(u32, Reverse<u32>, u32)>,
}

impl Spm {
    /// Checks the vocabulary.
    ///
    /// # Errors
    /// `missing_key` without scores, `bad_vocab` unless every byte has its token.
    pub fn new(path: &Path, vocab: &Vocab) -> Result<Self> {
        if vocab.scores().is_none() {
            let what = "tokenizer.ggml.scores: missing, expected the scores of a llama vocabulary";
            return Err(Error::file(path, "missing_key", what));
        }
        if let Some(byte) = (0..=255u8).find(|&byte| vocab.byte(byte).is_none()) {
            let what =
                format!("tokenizer.ggml.tokens: no byte token <0x{byte:02X}>, expected all 256 in a llama vocabulary");
            return Err(Error::file(path, "bad_vocab", what));
        }
        let (mut index, mut by_word) = (TokenIndex::new(vocab.len()), true);
        // A text that several ids have becomes the last of them.
        for id in vocab.ids().rev().filter(|&id| vocab.spells(id)) {
            if let Some(text) = vocab.utf8(id).filter(|text| !text.is_empty()) {
                index.insert(vocab.texts(), id);
                by_word &= !text.trim_start_matches(SPACE).contains(SPACE);
            }
        }
        Ok(Self { index, by_word })
    }

    /// Appends the ids of `text`, which holds no special tokens; `prefix` puts a space before it.
    pub fn encode(&self, vocab: &Vocab, text: &str, prefix: bool, ids: &mut Vec<u32>) {
        let mut spelt = String::with_capacity(text.len() + text.len() / 2 + SPACE.len_utf8());
        if prefix {
            spelt.push(SPACE);
        }
        for (i, part) in text.split(' ').enumerate() {
            if i > 0 {
                spelt.push(SPACE);
            }
            spelt.push_str(part);
        }
        let mut room = MergeScratch::default();
        let mut each = |word: &str| self.word(vocab, word.as_bytes(), &mut room, ids);
        let (mut from, mut before) = (0, SPACE);
        for (at, c) in spelt.char_indices() {
            if self.by_word && c == SPACE && before != SPACE {
                split::split_long_word(&spelt[from..at], &mut each);
                from = at;
            }
            before = c;
        }
        split::split_long_word(&spelt[from..], &mut each);
    }

    fn word(&self, vocab: &Vocab, word: &[u8], room: &mut MergeScratch, ids: &mut Vec<u32>) {
        let MergeScratch { symbols, heap } = room;
        symbols.clear();
        let mut at = 0;
        while at < word.len() {
            let end = (at + 1..word.len()).find(|&i| word[i] & 0xc0 != 0x80).unwrap_or(word.len());
            let n = symbols.len() as u32;
            symbols.push(Symbol { start: at as u32, len: (end - at) as u32, before: n.wrapping_sub(1), after: n + 1 });
            at = end;
        }
        let n = symbols.len() as u32;
        let scores = vocab.scores().unwrap_or_default();
        let found = |symbols: &[Symbol], left: u32, right: u32| {
            if left >= n || right >= n {
                return None;
            }
            let (start, len) = (symbols[left as usize].start, symbols[left as usize].len + symbols[right as usize].len);
            let id = self.index.get(vocab.texts(), &word[start as usize..(start + len) as usize])?;
            Some((score_to_ordered_bits(scores.get(id as usize).copied().unwrap_or(0.0)), Reverse(left), len))
        };
        heap.extend((1..n).filter_map(|i| found(symbols, i - 1, i)));
        while let Some((_, Reverse(left), len)) = heap.pop() {
            let Symbol { len: own, before, after: right, .. } = symbols[left as usize];
            if own == 0 || right >= n || own + symbols[right as usize].len != len {
                continue;
            }
            let after = symbols[right as usize].after;
            symbols[right as usize].len = 0;
            (symbols[left as usize].len, symbols[left as usize].after) = (len, after);
            if after < n {
                symbols[after as usize].before = left;
            }
            heap.extend(found(symbols, before, left));
            heap.extend(found(symbols, left, after));
        }
        for symbol in symbols.iter().filter(|symbol| symbol.len > 0) {
            let text = &word[symbol.start as usize..(symbol.start + symbol.len) as usize];
            match self.index.get(vocab.texts(), text) {
                Some(id) => ids.push(id),
                None => ids.extend(text.iter().filter_map(|&byte| vocab.byte(byte))),
            }
        }
    }
}

/// Bits that are ordered as the numbers are.
fn score_to_ordered_bits(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// Appends a token's text to `out` with its spaces as spaces.
pub fn decode(text: &[u8], out: &mut Vec<u8>) {
    let space = SPACE.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(space.as_slice()) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
}
