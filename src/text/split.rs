//! Cutting text before it meets the merges: at special tokens, into words, and over-long words into bounded ones.
//!
//! Takes a prompt and gives pieces in order that join to the prompt again. [`SPLITS`] is the one place that knows which
//! name in `tokenizer.ggml.pre` means which regular expression; a new pre-tokenizer is a row there.

use std::ops::Range;

use tokenizers::utils::SysRegex;

use super::vocab::{Kind, Vocab};

/// One pre-tokenizer: how a byte-level vocabulary cuts text into words.
#[derive(Debug)]
pub struct Split {
    /// Values of `tokenizer.ggml.pre` that mean this row.
    pub names: &'static [&'static str],
    /// Applied in turn; each cuts the pieces of the one before at its matches.
    pub patterns: &'static [&'static str],
    /// A word that is a token as a whole is that token, whatever the merges would give.
    pub whole_words: bool,
    /// Whether prompts start with BOS when the file does not say.
    pub add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Every pre-tokenizer there is.
pub const SPLITS: &[Split] = &[
    Split {
        names: &["llama-bpe", "llama3", "llama-v3"],
        patterns: &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )],
        whole_words: true,
        add_bos: true,
    },
    Split {
        names: &["qwen2"],
        patterns: &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )],
        whole_words: false,
        add_bos: false,
    },
    Split { names: &["gpt-2", "default"], patterns: &[GPT2], whole_words: false, add_bos: false },
    Split { names: &["starcoder"], patterns: &[r"\p{N}", GPT2], whole_words: false, add_bos: false },
];

/// The row of a name, or none.
pub fn find(name: &str) -> Option<&'static Split> {
    SPLITS.iter().find(|row| row.names.contains(&name))
}

/// Every known name, for error messages.
pub fn known() -> String {
    let names: Vec<&str> = SPLITS.iter().flat_map(|row| row.names.iter().copied()).collect();
    names.join(", ")
}

/// Calls `each` with the words of `text` in order; they join to `text`.
pub fn words(patterns: &[SysRegex], text: &str, each: &mut dyn FnMut(&str)) {
    let Some((first, rest)) = patterns.split_first() else {
        bounded(text, each);
        return;
    };
    let mut at = 0;
    for (start, end) in first.find_iter(text) {
        if start > at {
            words(rest, &text[at..start], each);
        }
        if end > start {
            words(rest, &text[start..end], each);
        }
        at = end;
    }
    // The expressions cover all text; a rest is left only when the engine gave up, and must not be lost.
    if at < text.len() {
        words(rest, &text[at..], each);
    }
}

/// Longest word handed to the merges, bytes: memory per word stays bounded. Real words never come near.
const MAX_WORD: usize = 64 << 10;

/// Cuts a word at character boundaries into pieces of at most [`MAX_WORD`] bytes.
pub fn bounded(mut word: &str, each: &mut dyn FnMut(&str)) {
    while word.len() > MAX_WORD {
        let cut = (MAX_WORD - 3..=MAX_WORD).rev().find(|&i| word.is_char_boundary(i)).unwrap_or(MAX_WORD);
        let (head, tail) = word.split_at(cut);
        each(head);
        word = tail;
    }
    if !word.is_empty() {
        each(word);
    }
}

/// A stretch of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Text without special tokens.
    Text(&'a str),
    /// A special token spelt out in the text.
    Special(u32),
}

/// Tokens that are found in text as a whole, longest first, by first byte.
#[derive(Debug, Default)]
pub struct Specials {
    by_first: Vec<Vec<u32>>,
}

impl Specials {
    /// Collects the user-defined, control and unknown tokens.
    pub fn new(vocab: &Vocab) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for id in vocab.ids() {
            let special = matches!(vocab.kind(id), Some(Kind::User | Kind::Control | Kind::Unknown));
            if let (true, Some(&first)) = (special, vocab.utf8(id).and_then(|t| t.as_bytes().first())) {
                by_first[usize::from(first)].push(id);
            }
        }
        for ids in &mut by_first {
            ids.sort_by_key(|&id| std::cmp::Reverse(vocab.text(id).map_or(0, <[u8]>::len)));
        }
        Self { by_first }
    }

    /// Cuts `text` at special tokens, leftmost and longest first. User-defined tokens always count, control and
    /// unknown tokens only where `parse_special` holds of their bytes.
    pub fn fragments<'a>(
        &self,
        vocab: &Vocab,
        text: &'a str,
        parse_special: &dyn Fn(Range<usize>) -> bool,
    ) -> Vec<Fragment<'a>> {
        let bytes = text.as_bytes();
        let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let candidates = self.by_first.get(usize::from(bytes[at])).map_or(&[][..], Vec::as_slice);
            let hit = candidates.iter().find_map(|&id| {
                let token = vocab.text(id)?;
                let found = bytes[at..].starts_with(token);
                let allowed = || vocab.kind(id) == Some(Kind::User) || parse_special(at..at + token.len());
                (found && allowed()).then_some((id, token.len()))
            });
            let Some((id, len)) = hit else {
                at += 1;
                continue;
            };
            if from < at {
                out.push(Fragment::Text(&text[from..at]));
            }
            out.push(Fragment::Special(id));
            at += len;
            from = at;
        }
        if from < bytes.len() {
            out.push(Fragment::Text(&text[from..]));
        }
        out
    }
}
