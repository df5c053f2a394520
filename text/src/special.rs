//! The ids with a meaning: beginning and end of text, end of turn, unknown, padding.
//!
//! Takes the `tokenizer.ggml.*_token_id` keys. Gives ids that are all inside the vocabulary: one outside counts as
//! unset, with a warning, and is never an index. Also knows the ends that files do not name, by their spelling.

use super::vocab::{TokenKind, Vocab};
use pumex_gguf::{Error, Gguf, Result};

/// Spellings of tokens that end an answer.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<|eot|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Spellings of the end of a turn, where the file names none.
const TURN_ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Control tokens whose text is part of an answer.
const SHOWN: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Tokens of a text with a gap to fill in, as files name them, older names behind; and by their spelling.
const INFILL: [(&[&str], &[&str]); 6] = [
    (
        &["fim_pre", "prefix"],
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
    ),
    (
        &["fim_suf", "suffix"],
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
    ),
    (
        &["fim_mid", "middle"],
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
    ),
    (&["fim_pad"], &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (&["fim_rep"], &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    (&["fim_sep"], &["<|file_sep|>"]),
];

/// Tokens of a text with a gap to fill in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Infill {
    /// Before the text that stands before the gap.
    pub prefix: Option<u32>,
    /// Before the text that stands behind it.
    pub suffix: Option<u32>,
    /// Before what fills it.
    pub middle: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Before the name of a repository.
    pub repo: Option<u32>,
    /// Between files.
    pub file: Option<u32>,
}

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
    /// Tokens of a text with a gap.
    pub infill: Infill,
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
    /// The usual tokens of SentencePiece.
    pub const SENTENCE: Usual = Usual { bos: Some(1), eos: Some(2), unk: Some(0), sep: None, add_eos: false };
    /// The usual tokens of WordPiece.
    pub const WORDS: Usual = Usual { bos: Some(101), eos: None, unk: Some(100), sep: Some(102), add_eos: false };
    /// The usual tokens of PLaMo.
    pub const PLAMO: Usual = Usual { bos: Some(1), eos: Some(2), unk: Some(0), sep: None, add_eos: false };
    /// The usual tokens of Unigram.
    pub const UNIGRAM: Usual = Usual { bos: None, eos: Some(1), unk: Some(2), sep: None, add_eos: true };
}

impl Special {
    /// Reads the keys; `usual` are the ids where the file is silent, and whether prompts start with BOS then.
    ///
    /// # Errors
    /// `bad_key_type`; `bad_vocab` if the vocabulary is too small for the default ids.
    pub fn read(
        gguf: &Gguf,
        vocab: &mut Vocab,
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
        let eom = id("eom", None)?;
        let mut infill = [None; 6];
        for (at, (keys, spellings)) in INFILL.iter().enumerate() {
            for key in *keys {
                infill[at] = infill[at].or(id(key, None)?);
            }
            if infill[at].is_none() {
                infill[at] = tokens_spelt_as(vocab, spellings).next();
                infill[at].into_iter().for_each(|id| vocab.set_kind(id, TokenKind::Control));
            }
        }
        let [prefix, suffix, middle, pad, repo, file] = infill;
        out.infill = Infill { prefix, suffix, middle, pad, repo, file };
        if out.eot.is_none() {
            out.eot = tokens_spelt_as(vocab, TURN_ENDS).next();
        }
        out.ends.extend([out.eos, out.eot, eom, pad, repo, file].into_iter().flatten());
        out.ends.extend(ends(vocab, out.eos));
        out.ends.sort_unstable();
        out.ends.dedup();
        out.add_bos = meta.opt_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(default_bos) && out.bos.is_some();
        out.add_eos = meta.opt_bool("tokenizer.ggml.add_eos_token")?.unwrap_or(usual.add_eos) && out.eos.is_some();
        out.add_sep = meta.opt_bool("tokenizer.ggml.add_sep_token")?.unwrap_or(usual.sep.is_some());
        Ok(out)
    }
}

/// The tokens that are spelt so.
fn tokens_spelt_as<'a>(vocab: &'a Vocab, spellings: &'a [&str]) -> impl Iterator<Item = u32> + 'a {
    spellings.iter().filter_map(|text| vocab.find(text.as_bytes()))
}

/// Ends by their spelling, which makes control tokens of them; and what such tokens tell of others.
fn ends(vocab: &mut Vocab, eos: Option<u32>) -> Vec<u32> {
    let mut found: Vec<u32> = tokens_spelt_as(vocab, ENDS).collect();
    found.iter().for_each(|&id| vocab.set_kind(id, TokenKind::Control));
    let shown: Vec<u32> = tokens_spelt_as(vocab, SHOWN).collect();
    shown.into_iter().for_each(|id| vocab.set_kind(id, TokenKind::User));
    let has = |text: &str| vocab.find(text.as_bytes()).is_some();
    let calls = has("<|call|>") || has("<|calls|>");
    // There, it ends a part of an answer.
    let part = (calls && (has("<|return|>") || has("<|flush|>"))).then(|| vocab.find(b"<|end|>")).flatten();
    let plamo = eos.and_then(|id| vocab.utf8(id)) == Some("<|plamo:eos|>");
    // There, it is a tag of HTML.
    let plain = (has("<|tool_response>") || plamo).then(|| vocab.find(b"</s>")).flatten();
    for (id, kind) in [(part, TokenKind::User), (plain, TokenKind::Normal)] {
        if let Some(id) = id {
            found.retain(|&end| end != id);
            vocab.set_kind(id, kind);
        }
    }
    found
}
