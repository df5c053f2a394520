//! Byte-level BPE: `tokenizer.ggml.model` "gpt2".
//!
//! Every byte is written as one printable character, so tokens and merges are ordinary text.
//! Takes the vocabulary, `tokenizer.ggml.merges` and a row of [`super::split::SPLITS`]; gives ids for text, and the
//! bytes of a token for decoding.

use std::collections::HashSet;
use std::path::Path;

use rayon::prelude::*;
use tokenizers::models::bpe::{BpeBuilder, Merges, Vocab as Map, BPE};
use tokenizers::utils::SysRegex;
use tokenizers::Model;

use super::split::{self, Split};
use super::vocab::{Kind, Vocab};
use crate::gguf::Gguf;
use crate::{Error, Result};

/// The merges of a byte-level vocabulary, ready to encode.
#[derive(Debug)]
pub struct ByteBpe {
    model: BPE,
    patterns: Vec<SysRegex>,
    alphabet: [char; 256],
    missing: Vec<u8>,
}

impl ByteBpe {
    /// Builds the encoder.
    ///
    /// # Errors
    /// `missing_key` without merges, `bad_vocab` for a merge that is not two texts with a space between.
    pub fn new(gguf: &Gguf, vocab: &Vocab, row: &Split, warnings: &mut Vec<String>) -> Result<Self> {
        let path = gguf.path();
        let (map, merges) = read_merges(gguf, vocab, warnings)?;
        let alphabet: [char; 256] = std::array::from_fn(|b| char_of(b as u8));
        let missing: Vec<u8> = (0..=255u8)
            .filter(|b| !matches!(b, 0xC0 | 0xC1 | 0xF5..))
            .filter(|&b| !map.contains_key(alphabet[usize::from(b)].to_string().as_str()))
            .collect();
        if !missing.is_empty() {
            warnings.push(format!(
                "tokenizer.ggml.tokens: no token for {} bytes that text may have; text with them is refused",
                missing.len()
            ));
        }
        let model = BpeBuilder::new()
            .vocab_and_merges(map, merges)
            .ignore_merges(row.whole_words)
            .build()
            .map_err(|e| Error::file(path, "bad_vocab", format!("tokenizer.ggml.merges: {e}")))?;
        let patterns = row
            .patterns
            .iter()
            .map(|p| {
                SysRegex::new(p).map_err(|e| Error::file(path, "unknown_tokenizer", format!("{}: {e}", row.names[0])))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { model, patterns, alphabet, missing })
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
        let (mut failed, mut spelt) = (None, String::new());
        split::words(&self.patterns, text, &mut |word| {
            spelt.clear();
            spelt.extend(word.bytes().map(|b| self.alphabet[usize::from(b)]));
            match self.model.tokenize(&spelt) {
                Ok(tokens) => ids.extend(tokens.iter().map(|t| t.id)),
                Err(e) => failed = Some(e),
            }
        });
        match failed {
            None => Ok(()),
            Some(e) => Err(Error::file(path, "bad_vocab", format!("tokenizer.ggml.merges: {e}"))),
        }
    }
}

/// What a line of merges is.
enum Found {
    /// Ids and texts of its halves.
    Merge((u32, u32), String, String),
    /// Its halves, or both together, are no tokens.
    NoTokens,
    /// Not two texts.
    NoMerge,
}

fn find_merge(map: &Map, line: &[u8], joined: &mut String) -> Found {
    // The left half may itself start with a space: look from the second byte on.
    let space = line.iter().skip(1).position(|&b| b == b' ').map(|p| p + 1);
    let Some(space) = space.filter(|&p| p + 1 < line.len()) else { return Found::NoMerge };
    let halves = (std::str::from_utf8(&line[..space]), std::str::from_utf8(&line[space + 1..]));
    let (Ok(left), Ok(right)) = halves else { return Found::NoTokens };
    joined.clear();
    joined.push_str(left);
    joined.push_str(right);
    match (map.get(left), map.get(right), map.contains_key(joined.as_str())) {
        (Some(&l), Some(&r), true) => Found::Merge((l, r), left.to_owned(), right.to_owned()),
        _ => Found::NoTokens,
    }
}

/// Reads the merges, and the texts that merging may meet: control tokens are not among them, so that no plain text can
/// spell one.
fn read_merges(gguf: &Gguf, vocab: &Vocab, warnings: &mut Vec<String>) -> Result<(Map, Merges)> {
    const KEY: &str = "tokenizer.ggml.merges";
    let lines = gguf.meta().opt_strings(KEY)?.ok_or_else(|| {
        Error::file(gguf.path(), "missing_key", format!("{KEY}: missing, expected the merges of a gpt2 vocabulary"))
    })?;
    let mut map = Map::default();
    map.reserve(vocab.len());
    for id in vocab.ids() {
        if matches!(vocab.kind(id), Some(Kind::Normal | Kind::User | Kind::Unused)) {
            if let Some(text) = vocab.utf8(id) {
                map.insert(text.to_owned(), id);
            }
        }
    }
    let found: Vec<Found> = (0..lines.len())
        .into_par_iter()
        .map_init(String::new, |joined, i| find_merge(&map, lines.get(i).unwrap_or_default(), joined))
        .collect();
    let (mut merges, mut seen, mut unknown) = (Merges::with_capacity(lines.len()), HashSet::new(), 0usize);
    seen.reserve(lines.len());
    for (i, found) in found.into_iter().enumerate() {
        match found {
            // The first of equal merges ranks.
            Found::Merge(ids, left, right) if seen.insert(ids) => merges.push((left, right)),
            Found::Merge(..) => {}
            Found::NoTokens => unknown += 1,
            Found::NoMerge => {
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
    Ok((map, merges))
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
