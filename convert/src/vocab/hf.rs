//! `tokenizer.json`, by the crate `tokenizers`: tokens, added tokens and what they are.

use super::{looks_special, pre, TokenKind, Tokens, VocabularySource};
use crate::json::{self, Object};
use crate::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tokenizers::{AddedToken, Tokenizer};

/// Special tokens that a tokenizer's class has where its settings name none.
const CLASSES: [(&str, &[(&str, &str)]); 5] = [
    ("Bert", &[("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")]),
    ("GPT2", &[("unk", "<|endoftext|>"), ("bos", "<|endoftext|>"), ("eos", "<|endoftext|>")]),
    ("Qwen2", &[("eos", "<|endoftext|>"), ("pad", "<|endoftext|>")]),
    ("Llama", &[("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>")]),
    ("Gemma", &[("unk", "<unk>"), ("bos", "<bos>"), ("eos", "<eos>"), ("pad", "<pad>")]),
];

/// A tokenizer, with the tokens that settings add.
pub struct Read {
    /// It, without truncation and padding.
    pub tokenizer: Tokenizer,
    /// `tokenizer_config.json`.
    pub settings: Object,
    path: PathBuf,
    texts: BTreeMap<usize, String>,
    named: BTreeSet<String>,
}

fn token(value: &Value) -> Option<AddedToken> {
    let flag = |key: &str, or: bool| value.get(key).and_then(Value::as_bool).unwrap_or(or);
    let special = flag("special", false);
    let content = value.get("content")?.as_str()?.to_string();
    Some(AddedToken {
        content,
        single_word: flag("single_word", false),
        lstrip: flag("lstrip", false),
        rstrip: flag("rstrip", false),
        normalized: flag("normalized", !special),
        special,
    })
}

/// The texts of special tokens that settings name.
fn special_token_texts(settings: &Object) -> Vec<String> {
    let class = settings.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
    let defaults = CLASSES.iter().find(|(begin, _)| class.starts_with(begin)).map_or(&[][..], |(_, d)| d);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        other => other.get("content").and_then(Value::as_str).map(String::from),
    };
    let one = |kind: &&str| match settings.get(&format!("{kind}_token")) {
        Some(value) => text(value),
        None => defaults.iter().find(|(k, _)| k == kind).map(|(_, text)| text.to_string()),
    };
    let more = settings.get("additional_special_tokens").and_then(Value::as_array);
    let mut all: Vec<String> = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"].iter().filter_map(one).collect();
    all.extend(more.into_iter().flatten().filter_map(text));
    all
}

impl Read {
    /// Reads a folder's tokenizer.
    ///
    /// # Errors
    /// Files that are missing or not what they should be.
    pub fn new(source: &VocabularySource<'_>) -> Result<Read> {
        let path = source.dir.join("tokenizer.json");
        let bytes = json::bytes(&path)?.ok_or_else(|| Error::file(&path, "expected a tokenizer, found none"))?;
        let wrong =
            |e: Box<dyn std::error::Error + Send + Sync>| Error::file(&path, format!("expected a tokenizer: {e}"));
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(wrong)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(wrong)?;
        let settings = json::object(&source.dir.join("tokenizer_config.json"))?.unwrap_or_default();
        let decoder = settings.get("added_tokens_decoder").and_then(Value::as_object);
        let mut more: Vec<(u32, AddedToken)> =
            decoder.into_iter().flatten().filter_map(|(id, t)| Some((id.parse().ok()?, token(t)?))).collect();
        more.sort_by_key(|(id, _)| *id);
        let known: BTreeSet<String> =
            tokenizer.get_added_tokens_decoder().values().map(|t| t.content.clone()).collect();
        let mut known: BTreeSet<String> =
            known.into_iter().chain(more.iter().map(|(_, t)| t.content.clone())).collect();
        let mut added: Vec<AddedToken> = more.into_iter().map(|(_, t)| t).collect();
        let named = special_token_texts(&settings);
        for text in &named {
            if known.insert(text.clone()) {
                added.push(AddedToken::from(text.clone(), true));
            }
        }
        for token in added {
            // Its list of special tokens is only what decoding leaves out on request.
            if token.special {
                tokenizer.add_special_tokens(&[token]);
            } else {
                tokenizer.add_tokens(&[token]);
            }
        }
        let texts = tokenizer.get_vocab(true).into_iter().map(|(text, id)| (id as usize, text)).collect();
        Ok(Read { tokenizer, settings, path, texts, named: named.into_iter().collect() })
    }

    /// Tokens by id.
    pub fn texts(&self) -> impl Iterator<Item = (usize, &String)> {
        self.texts.iter().map(|(id, text)| (*id, text))
    }

    /// Tokens of the model itself.
    pub fn base_len(&self) -> usize {
        self.tokenizer.get_vocab_size(false)
    }

    /// Ids of added tokens.
    pub fn list_added_ids(&self) -> BTreeSet<usize> {
        self.tokenizer.get_added_tokens_decoder().keys().map(|id| *id as usize).collect()
    }

    /// Whether settings name a text as a special token.
    pub fn is_named_special(&self, text: &str) -> bool {
        self.named.contains(text)
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::file(&self.path, what)
    }
}

/// The tokens of BPE and WordPiece vocabularies, and the name of what divides texts before.
///
/// # Errors
/// Files that are missing or not what they should be, and a pre-tokenizer that is not known.
pub fn base(source: &VocabularySource<'_>) -> Result<(Tokens, String)> {
    let read = Read::new(source)?;
    let size = source.vocab_size()?.unwrap_or(read.texts.len());
    let largest = read.texts.last_key_value().map_or(0, |(id, _)| *id);
    if largest >= size {
        return Err(read.wrong(format!(
            "expected ids below vocab_size of {}, which is {size}, found {largest}",
            source.config.path.display()
        )));
    }
    let pre = match source.pre {
        Some(pre) => pre.to_string(),
        None => pre::detect(&read).map_err(|what| read.wrong(what))?,
    };
    let added = read.tokenizer.get_added_tokens_decoder();
    let mut tokens = Tokens::unused(&source.config.path, size, 0.0)?;
    for (id, text) in &read.texts {
        let Some(token) = added.get(&(*id as u32)) else {
            tokens.set(*id, text.clone(), 0.0, TokenKind::Normal);
            continue;
        };
        let mut text = text.clone();
        if !token.normalized {
            // As it comes out again.
            let ids = read.tokenizer.encode(text.as_str(), false).map(|e| e.get_ids().to_vec());
            let again = ids.and_then(|ids| read.tokenizer.decode(&ids, false));
            text = again.map_err(|e| read.wrong(format!("added token {text}: {e}")))?;
        }
        if token.special || looks_special(&text) {
            tokens.set(*id, text, 0.0, TokenKind::Control);
        } else {
            tokens.set(*id, text.replace('\u{2581}', " "), 0.0, TokenKind::Defined);
        }
    }
    Ok((tokens, pre))
}
