//! Special tokens spelt out in a text.
//!
//! Takes a prompt and gives stretches of text and the special tokens between them. Long tokens go first, wherever they stand.

use std::ops::Range;

use super::trie::Trie;
use super::vocab::{is_markup, TokenKind, Vocab};

/// A stretch of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Text without special tokens.
    Text(&'a str),
    /// A special token spelt out in the text.
    Special(u32),
}

/// Where special tokens may stand.
#[derive(Clone, Copy)]
pub enum SpecialScope<'a> {
    /// Control tokens everywhere or nowhere, user-defined ones everywhere.
    All(bool),
    /// Only in bytes of which this holds; user-defined tokens that do not look like markup everywhere.
    Own(&'a dyn Fn(Range<usize>) -> bool),
}

/// Tokens that are found in text as a whole.
#[derive(Debug, Default)]
pub struct Specials {
    trie: Trie,
    /// Tokens that take the white space before, and behind, with them.
    strip_left: Vec<u32>,
    strip_right: Vec<u32>,
}

type Hit = (usize, usize, u32);

/// Longest stretch whose overlapping tokens are sorted by length, bytes.
const MAX_STRETCH: usize = 16 << 10;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl Specials {
    /// Collects the user-defined, control and unknown tokens.
    pub fn new(vocab: &Vocab, strip_left: Vec<u32>, strip_right: Vec<u32>) -> Self {
        let special =
            |&id: &u32| matches!(vocab.kind(id), Some(TokenKind::User | TokenKind::Control | TokenKind::Unknown));
        let usable = vocab.ids().filter(special).filter_map(|id| Some((vocab.utf8(id)?.as_bytes(), id)));
        Self { trie: Trie::new(usable.collect()), strip_left, strip_right }
    }

    fn longest(&self, vocab: &Vocab, bytes: &[u8], at: usize, marks: SpecialScope) -> Option<Hit> {
        let mut found = None;
        self.trie.prefixes(&bytes[at..], |len, id| {
            let user = vocab.kind(id) == Some(TokenKind::User);
            let allowed = match marks {
                SpecialScope::All(control) => user || control,
                SpecialScope::Own(own) => user && !is_markup(&bytes[at..at + len]) || own(at..at + len),
            };
            if allowed {
                found = Some((at, len, id));
            }
        });
        found
    }

    /// Cuts `text` at special tokens: the longest first, of equally long ones the leftmost.
    pub fn fragments<'a>(&self, vocab: &Vocab, text: &'a str, marks: SpecialScope) -> Vec<Fragment<'a>> {
        let bytes = text.as_bytes();
        let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let Some(hit) = self.longest(vocab, bytes, at, marks) else {
                at += 1;
                continue;
            };
            for (start, len, id) in self.settle(vocab, bytes, hit, marks) {
                let mut end = start;
                if self.strip_left.contains(&id) {
                    end = from + bytes[from..start].iter().rposition(|&b| !is_space(b)).map_or(0, |p| p + 1);
                }
                if from < end {
                    out.push(Fragment::Text(&text[from..end]));
                }
                out.push(Fragment::Special(id));
                from = start + len;
                if self.strip_right.contains(&id) {
                    from += bytes[from..].iter().take_while(|&&b| is_space(b)).count();
                }
                at = from;
            }
        }
        if from < bytes.len() {
            out.push(Fragment::Text(&text[from..]));
        }
        out
    }

    /// Which of the tokens that overlap with `first`, or with each other, count.
    fn settle(&self, vocab: &Vocab, bytes: &[u8], first: Hit, marks: SpecialScope) -> Vec<Hit> {
        let end = first.0 + first.1;
        let longer = |at: usize| self.longest(vocab, bytes, at, marks).filter(|hit| hit.1 > first.1);
        let Some(longer) = (first.0 + 1..end).find_map(longer) else { return vec![first] };
        let (mut hits, mut end, mut at) = (vec![first], end.max(longer.0 + longer.1), first.0 + 1);
        while at < end && at < first.0 + MAX_STRETCH {
            if let Some(hit) = self.longest(vocab, bytes, at, marks) {
                end = end.max(hit.0 + hit.1);
                hits.push(hit);
            }
            at += 1;
        }
        hits.sort_by_key(|&(start, len, _)| (std::cmp::Reverse(len), start));
        let mut taken: Vec<Hit> = Vec::new();
        for hit in hits {
            let apart = |other: &Hit| hit.0 + hit.1 <= other.0 || other.0 + other.1 <= hit.0;
            if taken.iter().all(apart) {
                taken.push(hit);
            }
        }
        taken.sort_unstable();
        taken
    }
}
