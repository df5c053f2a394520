//! The ids with a meaning: beginning and end of text, end of turn, unknown, padding.
//!
//! Takes the `tokenizer.ggml.*_token_id` keys. Gives ids that are all inside the vocabulary: one outside counts as
//! unset, with a warning, and is never an index. Also knows the ends that files do not name, by their spelling.

use super::vocab::{Kind, Vocab};
use crate::gguf::Gguf;
use crate::{Error, Result};

/// Spellings of tokens that end an answer, when they are control or user-defined tokens.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "<|eot|>",
    "<EOT>",
    "_<EOT>",
    "<｜end▁of▁sentence｜>",
];

/// Ids with a meaning, each inside the vocabulary.
#[derive(Clone, Debug, Default)]
pub struct Special {
    /// Beginning of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// Unknown token.
    pub unk: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Between two texts.
    pub sep: Option<u32>,
    /// Prompts start with BOS.
    pub add_bos: bool,
    /// Texts end with EOS.
    pub add_eos: bool,
    /// Two texts have `sep` between them.
    pub add_sep: bool,
    /// All ids that end generation, rising.
    pub ends: Vec<u32>,
}

/// Ids of a kind of vocabulary where the file is silent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usual {
    bos: Option<u32>,
    eos: Option<u32>,
    unk: Option<u32>,
    sep: Option<u32>,
    add_eos: bool,
}

impl Usual {
    /// Of SentencePiece.
    pub const SENTENCE: Usual = Usual { bos: Some(1), eos: Some(2), unk: Some(0), sep: None, add_eos: false };
    /// Of WordPiece.
    pub const WORDS: Usual = Usual { bos: Some(101), eos: None, unk: Some(100), sep: Some(102), add_eos: false };
    /// Of Unigram.
    pub const UNIGRAM: Usual = Usual { bos: None, eos: Some(1), unk: Some(2), sep: None, add_eos: true };
}

impl Special {
    /// Reads the keys; `usual` are the ids where the file is silent, and whether prompts start with BOS then.
    ///
    /// # Errors
    /// `bad_key_type`; `bad_vocab` if the vocabulary is too small for the default ids.
    pub fn read(
        gguf: &Gguf,
        vocab: &Vocab,
        n_vocab: usize,
        (usual, default_bos): (Usual, bool),
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let meta = gguf.meta();
        let mut id = |name: &str, default: Option<u32>| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = meta.opt_u32(&key)? else {
                return match default {
                    Some(id) if id as usize >= n_vocab => {
                        let what = format!("{key}: default {id}, but the vocabulary has {n_vocab} tokens");
                        Err(Error::file(gguf.path(), "bad_vocab", what))
                    }
                    default => Ok(default),
                };
            };
            if (id as usize) < n_vocab {
                return Ok(Some(id));
            }
            warnings.push(format!("{key}: {id} is outside the vocabulary of {n_vocab} tokens; treated as unset"));
            Ok(None)
        };
        let mut out = Special {
            bos: id("bos", usual.bos)?,
            eos: id("eos", usual.eos)?,
            eot: id("eot", None)?,
            unk: id("unknown", usual.unk)?,
            pad: id("padding", None)?,
            sep: id("seperator", usual.sep)?, // as files spell it
            ..Special::default()
        };
        out.ends.extend([out.eos, out.eot, id("eom", None)?].into_iter().flatten());
        let spelt = |text: &str| {
            vocab.ids().find(|&id| {
                matches!(vocab.kind(id), Some(Kind::Control | Kind::User)) && vocab.text(id) == Some(text.as_bytes())
            })
        };
        out.ends.extend(ends(vocab));
        if out.eot.is_none() {
            out.eot = ["<|eot_id|>", "<|im_end|>", "<end_of_turn>"].into_iter().find_map(spelt);
        }
        out.ends.sort_unstable();
        out.ends.dedup();
        out.add_bos = meta.opt_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(default_bos) && out.bos.is_some();
        out.add_eos = meta.opt_bool("tokenizer.ggml.add_eos_token")?.unwrap_or(usual.add_eos) && out.eos.is_some();
        out.add_sep = meta.opt_bool("tokenizer.ggml.add_sep_token")?.unwrap_or(usual.sep.is_some());
        Ok(out)
    }
}

/// Ends by their spelling. Where `<|return|>` and `<|call|>` end answers, `<|end|>` only ends a part of one.
fn ends(vocab: &Vocab) -> Vec<u32> {
    let is_end = |&id: &u32| {
        let special = matches!(vocab.kind(id), Some(Kind::Control | Kind::User));
        special && vocab.utf8(id).is_some_and(|text| ENDS.contains(&text))
    };
    let mut found: Vec<u32> = vocab.ids().filter(is_end).collect();
    let has = |found: &[u32], text: &str| found.iter().any(|&id| vocab.utf8(id) == Some(text));
    if has(&found, "<|return|>") && has(&found, "<|call|>") {
        found.retain(|&id| vocab.utf8(id) != Some("<|end|>"));
    }
    found
}
