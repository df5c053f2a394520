//! The checked vocabulary of a model: token bytes, kinds and scores, as the metadata states them.
//!
//! Takes the `tokenizer.ggml.tokens`, `token_type` and `scores` keys of a GGUF file.
//! Gives a [`Vocab`] whose every id has bytes and a kind, with no duplicate texts, no NaN scores and only well-formed
//! byte tokens; everything later may index by any id below [`Vocab::len`].

use std::path::Path;
use std::sync::Arc;

pub use super::byte_table::ByteTable;
use super::index::TokenIndex;
use pumex_gguf::{Error, Gguf, Result};

/// Most tokens a vocabulary may have.
const MAX_TOKENS: usize = 1 << 22;
/// Longest token text, bytes.
const MAX_TEXT: usize = 64 << 10;

/// What a token is for; the numbers are the file format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Text that encoding may produce.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// Steers the model; not text.
    Control = 3,
    /// Text that is always one token.
    User = 4,
    /// A row without meaning.
    Unused = 5,
    /// One byte, spelt `<0xHH>`.
    Byte = 6,
}

/// Whether a user-defined token's text steers the model rather than says something.
pub fn is_markup(text: &[u8]) -> bool {
    let marks = text.iter().any(|b| b"<>[]|{}".contains(b));
    text.len() > 1 && marks || std::str::from_utf8(text).is_ok_and(|t| t.contains('\u{ff5c}'))
}

/// Token bytes, kinds and scores, checked.
#[derive(Clone, Debug, Default)]
pub struct Vocab {
    texts: ByteTable,
    kinds: Vec<TokenKind>,
    scores: Option<Vec<f32>>,
    bytes: Vec<Option<u32>>,
    index: Option<Arc<TokenIndex>>,
}

impl Vocab {
    /// Reads and checks the vocabulary; what is odd but harmless goes to `warnings`.
    ///
    /// # Errors
    /// `missing_key` without tokens, `bad_key_type`, `bad_vocab` for anything out of the format's bounds.
    pub fn read(gguf: &Gguf, warnings: &mut Vec<String>) -> Result<Self> {
        let bad = |what: String| Error::file(gguf.path(), "bad_vocab", what);
        let meta = gguf.meta();
        let tokens = meta.opt_strings("tokenizer.ggml.tokens")?.ok_or_else(|| {
            Error::file(gguf.path(), "missing_key", "tokenizer.ggml.tokens: missing, expected the vocabulary")
        })?;
        let n = tokens.len();
        if n == 0 || n > MAX_TOKENS {
            return Err(bad(format!("tokenizer.ggml.tokens: {n} tokens, expected 1 to {MAX_TOKENS}")));
        }
        let types = meta.opt_i32s("tokenizer.ggml.token_type")?;
        let typed = types.is_some();
        let kinds = match types {
            Some(types) => read_kinds(&types, n).map_err(bad)?,
            None => vec![TokenKind::Normal; n],
        };
        let scores = meta.opt_f32s("tokenizer.ggml.scores")?;
        if let Some(scores) = &scores {
            if scores.len() != n {
                return Err(bad(format!(
                    "tokenizer.ggml.scores: {} scores, expected {n}, one per token",
                    scores.len()
                )));
            }
            if let Some(id) = scores.iter().position(|s| s.is_nan()) {
                return Err(bad(format!("tokenizer.ggml.scores: score of token {id} is NaN, expected a number")));
            }
        }
        let mut vocab = Vocab { texts: ByteTable::default(), kinds, scores, bytes: vec![None; 256], index: None };
        let mut not_text = 0usize;
        for (id, text) in tokens.iter().enumerate() {
            if text.len() > MAX_TEXT {
                return Err(bad(format!(
                    "tokenizer.ggml.tokens: token {id} has {} bytes, expected at most {MAX_TEXT}",
                    text.len()
                )));
            }
            not_text += usize::from(std::str::from_utf8(text).is_err());
            match text {
                [] => vocab.texts.push(format!("[EMPTY_{id}]").as_bytes()),
                text => vocab.texts.push(text),
            }
        }
        if not_text > 0 {
            warnings.push(format!("tokenizer.ggml.tokens: {not_text} token texts are not UTF-8; kept as bytes"));
        }
        vocab.index_texts();
        vocab.index_bytes(gguf.path(), typed)?;
        Ok(vocab)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The token's text as the file has it (not decoded), if the id exists.
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(id)
    }

    /// All texts, numbered by id.
    pub fn texts(&self) -> &ByteTable {
        &self.texts
    }

    /// The id of a text as the file has it.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.index.as_ref()?.get(&self.texts, text)
    }

    /// Takes a token for another kind than the file says.
    pub fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(own) = self.kinds.get_mut(id as usize) {
            *own = kind;
        }
    }

    /// The token's text where it is UTF-8.
    pub fn utf8(&self, id: u32) -> Option<&str> {
        std::str::from_utf8(self.text(id)?).ok()
    }

    /// The token's kind, if the id exists.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Whether text itself may come to be this token, by merges or as a piece: special tokens are found in it before, where they
    /// may be, and those that look like markup may not be in all of it.
    pub fn spells(&self, id: u32) -> bool {
        match self.kind(id) {
            Some(TokenKind::Normal | TokenKind::Unused) => true,
            Some(TokenKind::User) => !is_markup(self.text(id).unwrap_or_default()),
            _ => false,
        }
    }

    /// All ids, rising.
    pub fn ids(&self) -> std::ops::Range<u32> {
        0..self.len() as u32
    }

    /// Scores, one per token, none of them NaN; none for vocabularies that state merges.
    pub fn scores(&self) -> Option<&[f32]> {
        self.scores.as_deref()
    }

    /// The byte token of a byte.
    pub fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes.get(usize::from(byte)).copied().flatten()
    }

    /// Finds ids by their texts. Official files have texts twice: they become the last of their ids, as in llama.cpp.
    fn index_texts(&mut self) {
        let mut index = TokenIndex::new(self.len());
        for id in self.ids().rev() {
            index.insert(&self.texts, id);
        }
        self.index = Some(Arc::new(index));
    }

    /// Numbers the byte tokens. A file without kinds marks them by their spelling alone.
    fn index_bytes(&mut self, path: &Path, typed: bool) -> Result<()> {
        for id in self.ids() {
            let text = self.text(id).unwrap_or_default();
            let byte = match (typed, self.kinds[id as usize], parse_byte(text)) {
                (true, TokenKind::Byte, Some(byte)) | (false, _, Some(byte)) => byte,
                (true, TokenKind::Byte, None) => {
                    let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
                    let what =
                        format!("tokenizer.ggml.tokens: byte token {id} is {shown:?}, expected <0x00> to <0xFF>");
                    return Err(Error::file(path, "bad_vocab", what));
                }
                _ => continue,
            };
            self.kinds[id as usize] = TokenKind::Byte;
            if let Some(first) = self.bytes[usize::from(byte)].replace(id) {
                let what =
                    format!("tokenizer.ggml.tokens: tokens {first} and {id} are both byte {byte:#04x}, expected one");
                return Err(Error::file(path, "bad_vocab", what));
            }
        }
        Ok(())
    }
}

fn read_kinds(types: &[i32], n: usize) -> std::result::Result<Vec<TokenKind>, String> {
    if types.len() != n {
        return Err(format!("tokenizer.ggml.token_type: {} types, expected {n}, one per token", types.len()));
    }
    let kind = |(id, &t): (usize, &i32)| match t {
        1 => Ok(TokenKind::Normal),
        2 => Ok(TokenKind::Unknown),
        3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::User),
        5 => Ok(TokenKind::Unused),
        6 => Ok(TokenKind::Byte),
        _ => Err(format!("tokenizer.ggml.token_type: type {t} of token {id}, expected 1 to 6")),
    };
    types.iter().enumerate().map(kind).collect()
}

/// Parses `<0xHH>`: exactly two hex digits, no sign, nothing else.
pub fn parse_byte(text: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = text else {
        return None;
    };
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    Some(digit(*high)? << 4 | digit(*low)?)
}
