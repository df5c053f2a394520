//! SentencePiece-style BPE with byte fallback: `tokenizer.ggml.model` "llama".
//!
//! The file has scores but no merges; they are rebuilt: every way to put a token together from two others is a merge,
//! and a token's score ranks it. Takes the vocabulary; gives ids for text. Spaces are written as U+2581, and characters
//! without a token fall back to byte tokens.

use std::path::Path;

use tokenizers::models::bpe::{BpeBuilder, Merges, Vocab as Map, BPE};
use tokenizers::Model;

use super::split;
use super::vocab::{Kind, Vocab};
use crate::{Error, Result};

/// What a space is written as.
pub const SPACE: char = '\u{2581}';
/// Longest token that merges are rebuilt for, bytes: rebuilding takes quadratic time in it.
const MAX_MERGED: usize = 1 << 10;

/// The rebuilt merges, ready to encode.
#[derive(Debug)]
pub struct Spm {
    model: BPE,
    /// No token has a space after a letter, so words can be encoded one by one with the same result.
    by_word: bool,
}

impl Spm {
    /// Rebuilds the merges.
    ///
    /// # Errors
    /// `missing_key` without scores, `bad_vocab` unless every byte has its token.
    pub fn new(path: &Path, vocab: &Vocab) -> Result<Self> {
        let scores = vocab.scores().ok_or_else(|| {
            let what = "tokenizer.ggml.scores: missing, expected the scores of a llama vocabulary";
            Error::file(path, "missing_key", what)
        })?;
        let mut map = Map::default();
        for byte in 0..=255u8 {
            let id = vocab.byte(byte).ok_or_else(|| {
                let what = format!(
                    "tokenizer.ggml.tokens: no byte token <0x{byte:02X}>, expected all 256 in a llama vocabulary"
                );
                Error::file(path, "bad_vocab", what)
            })?;
            // The spelling that the byte fallback looks up.
            map.insert(format!("<0x{byte:02X}>"), id);
        }
        let mut by_word = true;
        for id in vocab.ids().filter(|&id| mergeable(vocab, id)) {
            if let Some(text) = vocab.utf8(id) {
                map.insert(text.to_owned(), id);
                by_word &= !text.trim_start_matches(SPACE).contains(SPACE);
            }
        }
        let merges = rebuild(vocab, scores, &map);
        let model = BpeBuilder::new()
            .vocab_and_merges(map, merges)
            .byte_fallback(true)
            .fuse_unk(true)
            .build()
            .map_err(|e| Error::file(path, "bad_vocab", format!("tokenizer.ggml.scores: {e}")))?;
        Ok(Self { model, by_word })
    }

    /// Appends the ids of `text`, which holds no special tokens; `prefix` puts a space before it.
    ///
    /// # Errors
    /// `bad_vocab` if the merges fail on it, which a checked vocabulary rules out.
    pub fn encode(&self, path: &Path, text: &str, prefix: bool, ids: &mut Vec<u32>) -> Result<()> {
        let mut spelt = String::with_capacity(text.len() + SPACE.len_utf8());
        if prefix {
            spelt.push(SPACE);
        }
        spelt.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let mut failed = None;
        let mut each = |word: &str| match self.model.tokenize(word) {
            Ok(tokens) => ids.extend(tokens.iter().map(|t| t.id)),
            Err(e) => failed = Some(e),
        };
        let (mut from, mut before) = (0, SPACE);
        for (at, c) in spelt.char_indices() {
            if self.by_word && c == SPACE && before != SPACE {
                split::bounded(&spelt[from..at], &mut each);
                from = at;
            }
            before = c;
        }
        split::bounded(&spelt[from..], &mut each);
        match failed {
            None => Ok(()),
            Some(e) => Err(Error::file(path, "bad_vocab", format!("tokenizer.ggml.tokens: {e}"))),
        }
    }
}

/// Whether merging may meet the token. Control tokens may not be spelt by plain text, bytes are only fallen back to.
fn mergeable(vocab: &Vocab, id: u32) -> bool {
    matches!(vocab.kind(id), Some(Kind::Normal | Kind::User))
}

/// All merges, best first: by score of the result, then id of the result, then ids of the halves.
fn rebuild(vocab: &Vocab, scores: &[f32], map: &Map) -> Merges {
    let mut order: Vec<u32> = vocab.ids().filter(|&id| mergeable(vocab, id)).collect();
    order.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
    let mut merges = Merges::new();
    for id in order {
        let Some(text) = vocab.utf8(id).filter(|t| t.len() <= MAX_MERGED) else {
            continue;
        };
        let half = |part: &str| map.get(part).copied().filter(|&id| mergeable(vocab, id));
        let mut pairs: Vec<(u32, u32, usize)> = text
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| Some((half(&text[..at])?, half(&text[at..])?, at)))
            .collect();
        pairs.sort_unstable();
        merges.extend(pairs.into_iter().map(|(_, _, at)| (text[..at].to_owned(), text[at..].to_owned())));
    }
    merges
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
