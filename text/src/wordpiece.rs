//! WordPiece: `tokenizer.ggml.model` "bert".
//!
//! Text is cleaned, lowered and rid of accents as the file says, and cut at spaces, around punctuation and around Chinese
//! characters. A word, with U+2581 before it, becomes the longest tokens that spell it from its start on; one that has no such
//! spelling is the unknown token.

use std::sync::LazyLock;

use unicode_normalization::char::decompose_canonical;

use super::split::{class, ranges_contain};
use super::spm::SPACE;
use super::trie::Trie;
use super::vocab::{TokenKind, Vocab};
use pumex_gguf::{Gguf, Result};

type Ranges = Vec<(char, char)>;

static CONTROL: LazyLock<Ranges> = LazyLock::new(|| class(r"[\p{Cc}\p{Cf}\p{Co}]"));
static MARKS: LazyLock<Ranges> = LazyLock::new(|| class(r"\p{M}"));
static PUNCTUATION: LazyLock<Ranges> = LazyLock::new(|| class(r"[\p{P}\p{S}&&[\p{P}\x00-\x7e]]"));
/// Chinese characters, each a word.
const CHINESE: &[(char, char)] = &[
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{20000}', '\u{2a6df}'),
    ('\u{2a700}', '\u{2b73f}'),
    ('\u{2b740}', '\u{2b81f}'),
    ('\u{2b920}', '\u{2ceaf}'),
    ('\u{2f800}', '\u{2fa1f}'),
];

/// The tokens by their text, and what is done to text before.
#[derive(Debug)]
pub struct WordPieceVocab {
    tokens: Trie,
    normalizer: Normalizer,
}

/// What is done to each character.
#[derive(Clone, Copy, Debug)]
pub struct Normalizer {
    /// Upper case becomes lower case.
    pub lowercase: bool,
    /// Accents are taken off.
    pub strip_accents: bool,
}

impl Normalizer {
    /// Reads the file's keys.
    ///
    /// # Errors
    /// `bad_key_type`.
    pub fn read(gguf: &Gguf, lowercase: bool) -> Result<Normalizer> {
        let flag = |name: &str| gguf.meta().opt_bool(&format!("tokenizer.ggml.normalizer.{name}"));
        let lowercase = flag("lowercase")?.unwrap_or(lowercase);
        Ok(Normalizer { lowercase, strip_accents: flag("strip_accents")?.unwrap_or(lowercase) })
    }
}

/// The lower case of a character, the first where it is several.
pub fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

impl WordPieceVocab {
    /// Takes the vocabulary and the keys of the normalizer.
    ///
    /// # Errors
    /// `bad_key_type`.
    pub fn new(gguf: &Gguf, vocab: &Vocab) -> Result<WordPieceVocab> {
        let usable = |&id: &u32| vocab.spells(id) || vocab.kind(id) == Some(TokenKind::Byte);
        let entries = vocab.ids().filter(usable).filter_map(|id| Some((vocab.text(id)?, id))).collect();
        Ok(WordPieceVocab { tokens: Trie::new(entries), normalizer: Normalizer::read(gguf, true)? })
    }

    /// Appends the ids of `text`, which holds no special tokens; `unknown` stands for words that cannot be spelt.
    pub fn encode(&self, text: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        let mut word = String::new();
        let mut flush = |word: &mut String| {
            if !word.is_empty() {
                self.spell(word, unknown, ids);
                word.clear();
            }
        };
        for mut c in text.chars() {
            if self.normalizer.strip_accents && !c.is_ascii() {
                // The base alone, as other tools do it: of a Hangul syllable the first letter.
                let mut base = None;
                decompose_canonical(c, |part| base = base.or(Some(part)));
                c = base.unwrap_or(c);
            }
            if c.is_whitespace() {
                flush(&mut word);
                continue;
            }
            if c == '\0' || c == char::REPLACEMENT_CHARACTER || ranges_contain(&CONTROL, c) {
                continue;
            }
            if self.normalizer.strip_accents && ranges_contain(&MARKS, c) {
                continue;
            }
            let alone = ranges_contain(&PUNCTUATION, c) || ranges_contain(CHINESE, c);
            if alone {
                flush(&mut word);
            }
            word.push(if self.normalizer.lowercase { lower(c) } else { c });
            if alone {
                flush(&mut word);
            }
        }
        flush(&mut word);
    }

    fn spell(&self, word: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        let (word, before) = (format!("{SPACE}{word}"), ids.len());
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let Some((len, id)) = self.tokens.longest(rest) else {
                ids.truncate(before);
                ids.extend(unknown);
                return;
            };
            ids.push(id);
            rest = &rest[len..];
        }
    }
}
