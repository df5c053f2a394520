//! Longest tokens first: `tokenizer.ggml.model` "rwkv".
//!
//! Tokens are byte strings, which the file writes with escapes; at each place the longest token that fits is taken.

use super::trie::Trie;
use super::vocab::Vocab;

/// The tokens by their bytes.
#[derive(Debug)]
pub struct Greedy {
    tokens: Trie,
}

impl Greedy {
    /// Takes the vocabulary.
    pub fn new(vocab: &Vocab) -> Greedy {
        let texts: Vec<(Vec<u8>, u32)> = vocab
            .ids()
            .filter(|&id| vocab.spells(id))
            .map(|id| (unescape(vocab.text(id).unwrap_or_default()), id))
            .collect();
        Greedy { tokens: Trie::new(texts.iter().map(|(text, id)| (text.as_slice(), *id)).collect()) }
    }

    /// Appends the ids of `text`; `unknown` stands for bytes that no token has.
    pub fn encode(&self, text: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (len, id) = self.tokens.longest(rest).map_or((1, unknown), |(len, id)| (len, Some(id)));
            ids.extend(id);
            rest = &rest[len..];
        }
    }
}

/// The bytes that a token's text stands for: `\t`, `\n`, `\r` and `\xHH` are escapes, other characters after a backslash
/// themselves.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |b: Option<&u8>| b.and_then(|&b| char::from(b).to_digit(16)).unwrap_or(0) as u8;
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let escape = text[at] == b'\\';
        at += usize::from(escape);
        let Some(&byte) = text.get(at) else { break };
        at += 1;
        match byte {
            b't' if escape => out.push(b'\t'),
            b'n' if escape => out.push(b'\n'),
            b'r' if escape => out.push(b'\r'),
            b'x' if escape => {
                out.push(digit(text.get(at)) << 4 | digit(text.get(at + 1)));
                at += 2;
            }
            other => out.push(other),
        }
    }
    out
}
