//! The chat template of a model file.
//!
//! Templates themselves are the crate `pumex-chat`'s; here is what a GGUF says: its template, named variants, and the texts of its
//! first and last tokens.

pub use pumex_chat::{builtin, reply, ArgumentForm, DateTime, Json, RenderLimits, RenderedPrompt, Request, Template};

use crate::Tokenizer;
use pumex_gguf::{Error, Gguf, Result};

/// The ids of a prompt: special tokens are read only from what the template wrote itself, and BOS stands first, once, where
/// prompts of the model have it.
///
/// # Errors
/// As for [`Tokenizer::encode`].
pub fn encode_prompt(tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Result<Vec<u32>> {
    tokenizer.encode_marked(&prompt.text, &|range| prompt.is_own(range), tokenizer.add_bos())
}

/// What a file says about conversations.
#[derive(Clone, Debug, Default)]
pub struct ModelChat {
    /// `tokenizer.chat_template`.
    pub template: Option<String>,
    /// `tokenizer.chat_template.NAME` by name.
    pub named: Vec<(String, String)>,
    /// Text of the token that begins a text; empty where there is none.
    pub bos: String,
    /// Text of the token that ends one; likewise.
    pub eos: String,
    /// Name of the built-in template that fits the family best.
    pub family: Option<&'static str>,
}

impl ModelChat {
    /// Reads a file's keys.
    ///
    /// # Errors
    /// A key has another type than it should.
    pub fn of(gguf: &Gguf) -> Result<ModelChat> {
        const KEY: &str = "tokenizer.chat_template";
        let meta = gguf.meta();
        let tokens = meta.opt_strings("tokenizer.ggml.tokens")?;
        let token = |key: &str| -> Result<String> {
            let id = meta.opt_u32(key)?.and_then(|id| usize::try_from(id).ok());
            let text = id.zip(tokens.as_ref()).and_then(|(id, tokens)| tokens.get(id));
            Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default())
        };
        let mut named = Vec::new();
        for (key, _) in meta.iter() {
            if let Some(name) = key.strip_prefix(KEY).and_then(|rest| rest.strip_prefix('.')) {
                named.push((name.to_string(), meta.str(key)?.to_string()));
            }
        }
        let template = meta.opt_str(KEY)?.map(str::to_string);
        let family = match &template {
            Some(_) => None,
            None => {
                let known: std::collections::HashSet<&[u8]> = tokens.iter().flat_map(|t| t.iter()).collect();
                builtin::of_family(meta.opt_str("general.architecture")?.unwrap_or_default(), &|token| {
                    known.contains(token.as_bytes())
                })
            }
        };
        Ok(ModelChat {
            template,
            named,
            bos: token("tokenizer.ggml.bos_token_id")?,
            eos: token("tokenizer.ggml.eos_token_id")?,
            family,
        })
    }

    /// The source to use: the variant for tools if there are tools, the file's own, or the family's.
    ///
    /// # Errors
    /// The file has no template and its family none that is known.
    pub fn source(&self, tools: bool) -> Result<String> {
        let variant = self.named.iter().find(|(name, _)| tools && name == "tool_use").map(|(_, source)| source.clone());
        let known = || self.family.and_then(builtin::builtin);
        variant.or_else(|| self.template.clone()).or_else(known).ok_or_else(|| {
            Error::Request(format!(
                "the model has no chat template and none is known for its family: give --chat-template, a text or one of {}",
                builtin::names().join(", ")
            ))
        })
    }

    /// What `--chat-template` names: a variant of the file, a built-in template, or the template itself.
    pub fn resolve_template(&self, text: &str) -> String {
        let own = self.named.iter().find(|(name, _)| name == text).map(|(_, source)| source.clone());
        if let Some(source) = own.or_else(|| builtin::builtin(text)) {
            return source;
        }
        // Any text is a template, as in llama.cpp; a word alone is more likely a slip.
        if !text.contains(['{', ' ', '\n']) {
            let known = builtin::names().join(", ");
            tracing::warn!("--chat-template: {text:?} is none of {known}, and is taken for the text of a template");
        }
        text.to_string()
    }
}
