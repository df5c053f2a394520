//! Vocabularies: a tokenizer's files → `tokenizer.*`.

mod hf;
mod plain;
mod pre;
mod special;
mod spm;

pub use special::Special;

use crate::config::Config;
use crate::metadata::{Meta, MetaValue};
use crate::{json, Error, Result};
use std::path::Path;

/// Tokens that a vocabulary has at most.
const MOST_TOKENS: usize = 4 << 20;

/// Kinds of tokens, as GGUF counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal = 1,
    /// What no other token is.
    Unknown = 2,
    /// A sign, such as the end of a text.
    Control = 3,
    /// A text that is never divided.
    Defined = 4,
    /// Nothing.
    Unused = 5,
    /// A byte.
    Byte = 6,
}

/// Tokens by id.
#[derive(Debug, Default)]
pub struct Tokens {
    texts: Vec<String>,
    scores: Vec<f32>,
    kinds: Vec<TokenKind>,
}

impl Tokens {
    /// Ids without a token yet.
    ///
    /// # Errors
    /// More than any vocabulary has.
    fn unused(path: &Path, len: usize, score: f32) -> Result<Tokens> {
        if len > MOST_TOKENS {
            return Err(Error::file(path, format!("vocab_size: expected at most {MOST_TOKENS}, found {len}")));
        }
        let texts = (0..len).map(|i| format!("[PAD{i}]")).collect();
        Ok(Tokens { texts, scores: vec![score; len], kinds: vec![TokenKind::Unused; len] })
    }

    fn set(&mut self, id: usize, text: String, score: f32, kind: TokenKind) {
        self.texts[id] = text;
        self.scores[id] = score;
        self.kinds[id] = kind;
    }

    fn put(self, meta: &mut Meta, scored: bool) {
        meta.set("tokenizer.ggml.tokens", MetaValue::Strs(self.texts));
        if scored {
            meta.set("tokenizer.ggml.scores", MetaValue::F32s(self.scores));
        }
        meta.set("tokenizer.ggml.token_type", MetaValue::I32s(self.kinds.iter().map(|k| *k as i32).collect()));
    }
}

/// What vocabularies are read from.
#[derive(Clone, Copy, Debug)]
pub struct VocabularySource<'a> {
    /// The folder.
    pub dir: &'a Path,
    /// The model's hyper-parameters.
    pub config: &'a Config,
    /// `tokenizer.ggml.pre`, where it is given.
    pub pre: Option<&'a str>,
}

/// Whether an added token's text looks like a sign, although it may not be marked as one.
fn looks_special(text: &str) -> bool {
    let between = |begin: &str, end: &str| text.starts_with(begin) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<｜", "｜>")
        || between("<unused", ">")
}

impl VocabularySource<'_> {
    /// Whether there is a SentencePiece model.
    pub fn has_spm(&self) -> bool {
        self.dir.join("tokenizer.model").is_file()
    }

    fn vocab_size(&self) -> Result<Option<usize>> {
        Ok(self.config.opt_u32(&["vocab_size"])?.map(|n| n as usize))
    }

    /// Byte-level BPE of `tokenizer.json`.
    ///
    /// # Errors
    /// Files that are missing or not what they should be, and a vocabulary whose pre-tokenizer is not known.
    pub fn bpe(&self, meta: &mut Meta) -> Result<()> {
        let (tokens, pre) = hf::base(self)?;
        meta.set("tokenizer.ggml.model", "gpt2");
        meta.set("tokenizer.ggml.pre", pre);
        tokens.put(meta, false);
        Special::read(self.dir, true, None)?.put(meta);
        Ok(())
    }

    /// A SentencePiece model.
    ///
    /// # Errors
    /// Files that are missing or not what they should be.
    pub fn spm(&self, meta: &mut Meta) -> Result<()> {
        let tokens = spm::tokens(self)?;
        self.put_spm(meta, tokens)
    }

    /// A SentencePiece model with all added tokens as Phi 3 has them.
    ///
    /// # Errors
    /// As [`VocabularySource::spm`].
    pub fn spm_of_phi(&self, meta: &mut Meta) -> Result<()> {
        let tokens = spm::tokens_of_phi(self)?;
        self.put_spm(meta, tokens)
    }

    /// The number of tokens of a SentencePiece model, with the ids that are left free.
    ///
    /// # Errors
    /// As [`VocabularySource::spm`].
    pub fn spm_len(&self) -> Result<usize> {
        spm::tokens(self).map(|tokens| tokens.texts.len())
    }

    fn put_spm(&self, meta: &mut Meta, tokens: Tokens) -> Result<()> {
        let len = tokens.texts.len();
        meta.set("tokenizer.ggml.model", "llama");
        meta.set("tokenizer.ggml.pre", "default");
        tokens.put(meta, true);
        Special::read(self.dir, false, Some(len))?.put(meta);
        Ok(())
    }

    /// A SentencePiece model, or BPE.
    ///
    /// # Errors
    /// As those.
    pub fn spm_or_bpe(&self, meta: &mut Meta) -> Result<()> {
        if self.has_spm() {
            self.spm(meta)
        } else {
            self.bpe(meta)
        }
    }

    /// Writes a vocabulary as Llama's models have it: a SentencePiece model, the same in `tokenizer.json`, or BPE.
    ///
    /// # Errors
    /// As those.
    pub fn llama(&self, meta: &mut Meta) -> Result<()> {
        let settings = json::object(&self.dir.join("tokenizer_config.json"))?.unwrap_or_default();
        if let Some(add) = settings.get("add_prefix_space").and_then(|v| v.as_bool()) {
            meta.set("tokenizer.ggml.add_space_prefix", MetaValue::Bool(add));
        }
        if self.has_spm() {
            self.spm(meta)?;
        } else if plain::is_byte_fallback(self.dir)? {
            let tokens = plain::tokens(self)?;
            self.put_spm(meta, tokens)?;
        } else {
            self.bpe(meta)?;
        }
        let size = self.vocab_size()?.unwrap_or(32000);
        if size == 32016 {
            // Code Llama's: only the end of a turn has a key.
            let mut special = Special::read_types(self.dir, false, None, &["prefix", "suffix", "middle", "eot"])?;
            special.id("eot", 32010);
            special.put(meta);
        }
        if size == 49152 {
            meta.set("tokenizer.ggml.add_bos_token", MetaValue::Bool(false));
        }
        Ok(())
    }

    /// WordPiece of BERT, with the marks of words turned round.
    ///
    /// # Errors
    /// As [`VocabularySource::bpe`].
    pub fn word_piece(&self, meta: &mut Meta) -> Result<()> {
        let (mut tokens, pre) = hf::base(self)?;
        let types = self.config.opt_u32(&["type_vocab_size"])?.unwrap_or(1);
        meta.set("tokenizer.ggml.token_type_count", MetaValue::U32(types));
        for (text, kind) in tokens.texts.iter_mut().zip(&tokens.kinds) {
            if *kind != TokenKind::Control {
                *text = text.strip_prefix("##").map_or_else(|| format!("\u{2581}{text}"), String::from);
            }
        }
        let len = tokens.texts.len();
        meta.set("tokenizer.ggml.model", "bert");
        meta.set("tokenizer.ggml.pre", pre);
        tokens.put(meta, false);
        Special::read(self.dir, false, Some(len))?.put(meta);
        Ok(())
    }
}
