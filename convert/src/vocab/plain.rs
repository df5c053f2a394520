//! Vocabularies of `tokenizer.json` that stand for a SentencePiece model: BPE that falls back to bytes.

use super::{TokenKind, Tokens, VocabularySource};
use crate::json;
use crate::vocab::hf;
use crate::Result;
use serde_json::Value;
use std::path::Path;

/// Whether `tokenizer.json` has one.
///
/// # Errors
/// A file that is not what it should be.
pub fn is_byte_fallback(dir: &Path) -> Result<bool> {
    let Some(tokenizer) = json::object(&dir.join("tokenizer.json"))? else { return Ok(false) };
    let model = tokenizer.get("model");
    let text = |of: Option<&Value>| of.and_then(|o| o.get("type")).and_then(Value::as_str).map(String::from);
    let fallback = model.and_then(|m| m.get("byte_fallback")).and_then(Value::as_bool) == Some(true);
    Ok(text(model).as_deref() == Some("BPE")
        && fallback
        && text(tokenizer.get("decoder")).as_deref() == Some("Sequence"))
}

/// Its tokens, all with one score.
///
/// # Errors
/// Files that are not what they should be.
pub fn tokens(source: &VocabularySource<'_>) -> Result<Tokens> {
    let read = hf::Read::new(source)?;
    let base = read.base_len();
    let added = read.list_added_ids();
    let mut tokens = Tokens::default();
    let byte = |text: &str| text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
    for (id, text) in read.texts() {
        let special = read.is_named_special(text);
        let kind = match id < base {
            true if byte(text) => TokenKind::Byte,
            _ if special => TokenKind::Control,
            true => TokenKind::Normal,
            false => TokenKind::Defined,
        };
        if id < base || added.contains(&id) {
            tokens.texts.push(text.clone());
            tokens.scores.push(-1000.0);
            tokens.kinds.push(kind);
        }
    }
    Ok(tokens)
}
