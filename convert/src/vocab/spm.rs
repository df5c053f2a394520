//! SentencePiece models: the part of their protobuf that has the pieces, and tokens that other files add.

use super::{looks_special, TokenKind, Tokens, VocabularySource};
use crate::json::{self, Object};
use crate::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// A piece of a model.
struct ScoredPiece {
    text: String,
    score: f32,
    kind: TokenKind,
}

/// A message's bytes, field by field.
struct Fields<'a>(&'a [u8]);

/// A field's value.
enum ProtobufField<'a> {
    Number(u64),
    Word(u32),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// The next field's number and value; none where the bytes are no field.
    fn next(&mut self) -> Option<(u64, ProtobufField<'a>)> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => ProtobufField::Number(self.number()?),
            1 => ProtobufField::Bytes(self.take(8)?),
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                ProtobufField::Bytes(self.take(len)?)
            }
            5 => ProtobufField::Word(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

fn piece(bytes: &[u8]) -> Option<ScoredPiece> {
    let (mut fields, mut piece) =
        (Fields(bytes), ScoredPiece { text: String::new(), score: 0.0, kind: TokenKind::Normal });
    while !fields.0.is_empty() {
        match fields.next()? {
            (1, ProtobufField::Bytes(text)) => piece.text = String::from_utf8(text.to_vec()).ok()?,
            (2, ProtobufField::Word(bits)) => piece.score = f32::from_bits(bits),
            // What users define is no more than a piece here.
            (3, ProtobufField::Number(kind)) => {
                piece.kind = match kind {
                    1 | 4 => TokenKind::Normal,
                    2 => TokenKind::Unknown,
                    3 => TokenKind::Control,
                    5 => TokenKind::Unused,
                    6 => TokenKind::Byte,
                    _ => return None,
                }
            }
            _ => {}
        }
    }
    Some(piece)
}

fn pieces(path: &Path) -> Result<Vec<ScoredPiece>> {
    let bytes = json::bytes(path)?.ok_or_else(|| Error::file(path, "expected a SentencePiece model, found none"))?;
    let (mut fields, mut pieces) = (Fields(&bytes), Vec::new());
    while !fields.0.is_empty() {
        let at = bytes.len() - fields.0.len();
        let what = || Error::file(path, format!("expected a SentencePiece model, found something else at byte {at}"));
        if let (1, ProtobufField::Bytes(bytes)) = fields.next().ok_or_else(what)? {
            pieces.push(piece(bytes).ok_or_else(what)?);
        }
    }
    if pieces.is_empty() {
        return Err(Error::file(path, "expected a SentencePiece model, found no pieces"));
    }
    Ok(pieces)
}

/// The pieces, and ids without one up to the size of the vocabulary.
fn read_pieces(source: &VocabularySource<'_>) -> Result<Tokens> {
    let pieces = pieces(&source.dir.join("tokenizer.model"))?;
    let size = source.vocab_size()?.filter(|n| *n > 0).unwrap_or(pieces.len());
    let mut tokens = Tokens::unused(&source.config.path, size, -10000.0)?;
    for (id, piece) in pieces.into_iter().enumerate().take(size) {
        tokens.set(id, piece.text, piece.score, piece.kind);
    }
    let path = source.dir.join("added_tokens.json");
    for (text, id) in json::object(&path)?.unwrap_or_default() {
        let id = id.as_u64().ok_or_else(|| Error::file(&path, format!("{text}: expected an id, found {id}")))? as usize;
        if id < size {
            tokens.set(id, text, -1000.0, TokenKind::Defined);
        }
    }
    Ok(tokens)
}

/// Added tokens of `tokenizer_config.json`: id, text, whether it is special.
fn decoder(dir: &Path) -> Result<Vec<(usize, String, bool)>> {
    let path = dir.join("tokenizer_config.json");
    let settings = json::object(&path)?.unwrap_or_default();
    let none = Object::new();
    let list = settings.get("added_tokens_decoder").and_then(Value::as_object).unwrap_or(&none);
    let mut found = Vec::new();
    for (id, token) in list {
        let text = token.get("content").and_then(Value::as_str);
        let (Ok(id), Some(text)) = (id.parse::<usize>(), text) else {
            return Err(Error::file(
                &path,
                format!("added_tokens_decoder: expected an id with a content, found {id}: {token}"),
            ));
        };
        found.push((id, text.to_string(), token.get("special").and_then(Value::as_bool) == Some(true)));
    }
    found.sort();
    Ok(found)
}

/// A model's tokens with those that the folder's other files add.
///
/// # Errors
/// Files that are missing or not what they should be.
pub fn tokens(source: &VocabularySource<'_>) -> Result<Tokens> {
    let mut tokens = read_pieces(source)?;
    for (id, text, special) in decoder(source.dir)? {
        if id >= tokens.texts.len() {
            continue;
        }
        if special || looks_special(&text) {
            tokens.set(id, text, -1000.0, TokenKind::Control);
        } else {
            tokens.set(id, text.replace('\u{2581}', " "), -1000.0, TokenKind::Defined);
        }
    }
    Ok(tokens)
}

/// A Phi model's tokens: those of its SentencePiece model and of `tokenizer.json`, marked only as the files mark them.
///
/// # Errors
/// As [`tokens`].
pub fn tokens_of_phi(source: &VocabularySource<'_>) -> Result<Tokens> {
    let mut tokens = read_pieces(source)?;
    let path = source.dir.join("tokenizer.json");
    let tokenizer = json::object(&path)?.unwrap_or_default();
    let mut added = decoder(source.dir)?;
    for token in tokenizer.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
        let (id, text) = (token.get("id").and_then(Value::as_u64), token.get("content").and_then(Value::as_str));
        let (Some(id), Some(text)) = (id, text) else {
            return Err(Error::file(&path, format!("added_tokens: expected an id and a content, found {token}")));
        };
        added.push((id as usize, text.to_string(), token.get("special").and_then(Value::as_bool) == Some(true)));
    }
    for (id, text, special) in added {
        if id >= tokens.texts.len() {
            let what = format!("added token {text}: expected an id below {}, found {id}", tokens.texts.len());
            return Err(Error::file(&path, what));
        }
        tokens.set(id, text, -1000.0, if special { TokenKind::Control } else { TokenKind::Defined });
    }
    Ok(tokens)
}
