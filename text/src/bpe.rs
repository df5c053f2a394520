//! BPE with merges: `tokenizer.ggml.model` "gpt2" and its kin.
//!
//! In most files every byte is written as one printable character; tokens are kept here as the bytes that they stand for. Others,
//! as "gemma4", have plain text with U+2581 for spaces. Takes the vocabulary, `tokenizer.ggml.merges` and a row of
//! [`super::pretokenizers::ROWS`]; gives ids for text.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use rayon::prelude::*;

use super::index::{MergeIndex, TokenIndex, NONE};
use super::merge::Symbols;
use super::pretokenizers::PreTokenizer;
use super::split::Splitter;
use super::vocab::{ByteTable, Vocab};
use pumex_gguf::{Error, Gguf, Result};

/// The merges of a vocabulary, ready to encode.
#[derive(Debug)]
pub struct Bpe {
    keys: ByteTable,
    index: TokenIndex,
    pairs: MergeIndex,
    splitter: Splitter,
    whole_words: bool,
    plain: bool,
    /// The token of each byte.
    bytes: [u32; 256],
    /// Bytes without a token that text may have.
    missing: Vec<u8>,
    /// By token: whether merging its own bytes gives it: 0 not known yet, 1 it does, 2 it does not.
    whole: Vec<AtomicU8>,
}

/// What a line of merges is.
enum MergeLine {
    /// Ids of its halves and of both together.
    Merge(u32, u32, u32),
    /// Its halves, or both together, are no tokens.
    NoTokens,
    /// Not two texts.
    NoMerge,
}

impl Bpe {
    /// Builds the encoder.
    ///
    /// # Errors
    /// `missing_key` without merges, `bad_vocab` for a merge that is not two texts with a space between.
    pub fn new(gguf: &Gguf, vocab: &Vocab, row: &PreTokenizer, warnings: &mut Vec<String>) -> Result<Self> {
        let path = gguf.path();
        let alphabet = Alphabet::new();
        let (mut keys, mut key) = (ByteTable::default(), Vec::new());
        let (mut index, mut spelling) = (TokenIndex::new(vocab.len()), Vec::new());
        for id in vocab.ids() {
            key.clear();
            let text = vocab.text(id).unwrap_or_default();
            let spelt = vocab.spells(id) && (row.plain || alphabet.spell(text, &mut key));
            keys.push(if row.plain { text } else { &key });
            if spelt && !text.is_empty() {
                spelling.push(id);
            }
        }
        // A text that several ids have becomes the last of them.
        spelling.iter().rev().for_each(|id| index.insert(&keys, *id));
        let byte = |b: u8| if row.plain { vocab.byte(b) } else { index.get(&keys, &[b]) };
        let bytes: [u32; 256] = std::array::from_fn(|b| byte(b as u8).unwrap_or(NONE));
        let possible = (0..=255u8).filter(|b| !matches!(b, 0xC0 | 0xC1 | 0xF5..));
        let missing: Vec<u8> = possible.filter(|&b| !row.plain && bytes[usize::from(b)] == NONE).collect();
        if !missing.is_empty() {
            warnings.push(format!(
                "tokenizer.ggml.tokens: no token for {} bytes that text may have; text with them is refused",
                missing.len()
            ));
        }
        let pairs = read_merges(gguf, (&keys, &index), (row, &alphabet), warnings)?;
        let splitter = Splitter::new(row).map_err(|e| Error::file(path, "unknown_tokenizer", e))?;
        let whole = vocab.ids().map(|_| AtomicU8::new(0)).collect();
        Ok(Self { keys, index, pairs, splitter, whole_words: row.whole_words, plain: row.plain, bytes, missing, whole })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    ///
    /// # Errors
    /// `bad_vocab` for a byte that the vocabulary cannot spell.
    pub fn encode(&self, path: &Path, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        if !self.missing.is_empty() {
            if let Some(byte) = text.bytes().find(|b| self.missing.contains(b)) {
                let what = format!("tokenizer.ggml.tokens: no token for byte {byte:#04x}, which the text needs");
                return Err(Error::file(path, "bad_vocab", what));
            }
        }
        let mut symbols = Symbols::default();
        self.splitter.words(text, &mut |word| self.word(word.as_bytes(), &mut symbols, ids));
        Ok(())
    }

    fn word(&self, word: &[u8], symbols: &mut Symbols, ids: &mut Vec<u32>) {
        let token = self.index.get(&self.keys, word);
        if let Some(id) = token {
            let lines = self.plain && word.iter().all(|&b| b == b'\n');
            if self.whole_words || lines || self.whole[id as usize].load(Ordering::Relaxed) == 1 {
                ids.push(id);
                return;
            }
        }
        symbols.clear();
        if self.plain {
            let mut at = 0;
            while at < word.len() {
                let end = (at + 1..word.len()).find(|&i| word[i] & 0xc0 != 0x80).unwrap_or(word.len());
                symbols.push(self.index.get(&self.keys, &word[at..end]).unwrap_or(NONE), at);
                at = end;
            }
        } else {
            word.iter().enumerate().for_each(|(at, &b)| symbols.push(self.bytes[usize::from(b)], at));
        }
        symbols.merge(&self.pairs);
        if let Some(id) = token {
            let state = if symbols.ids == [id] { 1 } else { 2 };
            self.whole[id as usize].store(state, Ordering::Relaxed);
        }
        for (i, &id) in symbols.ids.iter().enumerate() {
            if id != NONE {
                ids.push(id);
                continue;
            }
            let end = symbols.starts.get(i + 1).map_or(word.len(), |&end| end as usize);
            let spelt = word[symbols.starts[i] as usize..end].iter().map(|&b| self.bytes[usize::from(b)]);
            // Where the vocabulary lacks bytes, such text has no ids.
            ids.extend(spelt.filter(|&id| id != NONE));
        }
    }
}

/// Reads the merges. Control tokens are not among the texts, so that no plain text can spell one.
fn read_merges(
    gguf: &Gguf,
    (keys, index): (&ByteTable, &TokenIndex),
    (row, alphabet): (&PreTokenizer, &Alphabet),
    warnings: &mut Vec<String>,
) -> Result<MergeIndex> {
    const KEY: &str = "tokenizer.ggml.merges";
    let lines = match gguf.meta().opt_strings(KEY)? {
        Some(lines) => lines,
        None if row.names.contains(&"kimi-k2") => return Ok(MergeIndex::new(0)),
        None => {
            let what = format!("{KEY}: missing, expected the merges of a vocabulary of BPE");
            return Err(Error::file(gguf.path(), "missing_key", what));
        }
    };
    let find = |line: &[u8], buffer: &mut Vec<u8>| {
        // The left half may itself start with a space: look from the second byte on.
        let space = line.iter().skip(1).position(|&b| b == b' ').map(|p| p + 1);
        let Some(space) = space.filter(|&p| p + 1 < line.len()) else { return MergeLine::NoMerge };
        buffer.clear();
        let (left, right) = (&line[..space], &line[space + 1..]);
        let mut spell = |half: &[u8]| {
            if row.plain {
                buffer.extend_from_slice(half);
                return Some(buffer.len());
            }
            alphabet.spell(half, buffer).then_some(buffer.len())
        };
        let (Some(middle), Some(_)) = (spell(left), spell(right)) else { return MergeLine::NoTokens };
        let id = |text: &[u8]| index.get(keys, text);
        match (id(&buffer[..middle]), id(&buffer[middle..]), id(buffer)) {
            (Some(left), Some(right), Some(merged)) => MergeLine::Merge(left, right, merged),
            _ => MergeLine::NoTokens,
        }
    };
    let found: Vec<MergeLine> = (0..lines.len())
        .into_par_iter()
        .with_min_len(4096)
        .map_init(Vec::new, |buffer, i| find(lines.get(i).unwrap_or_default(), buffer))
        .collect();
    let (mut pairs, mut unknown) = (MergeIndex::new(lines.len()), 0usize);
    for (i, found) in found.into_iter().enumerate() {
        match found {
            MergeLine::Merge(left, right, merged) => pairs.insert(left, right, i as u32, merged),
            MergeLine::NoTokens => unknown += 1,
            MergeLine::NoMerge => {
                let line = lines.get(i).unwrap_or_default();
                let shown: String = String::from_utf8_lossy(line).chars().take(40).collect();
                let what = format!("{KEY}: merge {i} is {shown:?}, expected two texts with a space between");
                return Err(Error::file(gguf.path(), "bad_vocab", what));
            }
        }
    }
    if unknown > 0 {
        warnings.push(format!("{KEY}: {unknown} of {} merges name texts that are no tokens; left out", lines.len()));
    }
    Ok(pairs)
}

/// The printable character that stands for a byte: Latin-1's visible characters for themselves, the other 68 bytes in
/// order from U+0100 on.
pub fn char_of(byte: u8) -> char {
    let hidden = |b: u8| matches!(b, 0..=32 | 127..=160 | 173);
    if hidden(byte) {
        let before = (0..byte).filter(|&b| hidden(b)).count() as u32;
        char::from_u32(256 + before).unwrap_or('\u{fffd}')
    } else {
        char::from(byte)
    }
}

/// The bytes that a token's text stands for; a character outside the alphabet stands for itself.
pub struct Alphabet {
    bytes: Vec<Option<u8>>,
}

impl Alphabet {
    /// The inverse of [`char_of`].
    pub fn new() -> Self {
        let mut bytes = vec![None; 512];
        for byte in 0..=255u8 {
            bytes[char_of(byte) as usize] = Some(byte);
        }
        Self { bytes }
    }

    /// Appends the bytes of a text of the alphabet to `out`; whether it is one.
    pub fn spell(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return false };
        text.chars().all(|c| {
            let byte = self.bytes.get(c as usize).copied().flatten();
            out.extend(byte);
            byte.is_some()
        })
    }

    /// Appends the bytes of a token's text to `out`.
    pub fn decode(&self, text: &[u8], out: &mut Vec<u8>) {
        let Ok(text) = std::str::from_utf8(text) else {
            out.extend_from_slice(text);
            return;
        };
        for c in text.chars() {
            match self.bytes.get(c as usize).copied().flatten() {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
}

impl Default for Alphabet {
    fn default() -> Self {
        Self::new()
    }
}
