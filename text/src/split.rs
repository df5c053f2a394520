//! Cutting text into words, before they meet the merges.
//!
//! Takes text without special tokens and gives pieces in order that join to the text again, in time linear in it.

use regex_syntax::hir::{Class, HirKind};

use super::automaton::Automaton;
use super::pretokenizers::{PreTokenizer, SplitRule};

#[derive(Debug)]
enum Stage {
    At(Box<Automaton>),
    Thousands { ascii: bool },
    PowersOfTwo,
    TrailingSpace,
}

/// The cuts of a row, ready to use.
#[derive(Debug)]
pub struct Splitter {
    stages: Vec<Stage>,
}

/// Longest word handed to the merges, bytes: memory per word stays bounded. Real words never come near.
const MAX_WORD: usize = 64 << 10;

impl Splitter {
    /// Compiles the row's expressions.
    ///
    /// # Errors
    /// Names the row and what is wrong with it.
    pub fn new(row: &PreTokenizer) -> Result<Splitter, String> {
        let stage = |cut: &SplitRule| match cut {
            SplitRule::At(expression) => Automaton::new(expression).map(|a| Stage::At(Box::new(a))),
            SplitRule::Thousands => Ok(Stage::Thousands { ascii: false }),
            SplitRule::AsciiThousands => Ok(Stage::Thousands { ascii: true }),
            SplitRule::PowersOfTwo => Ok(Stage::PowersOfTwo),
            SplitRule::TrailingSpace => Ok(Stage::TrailingSpace),
        };
        let stages = row.cuts.iter().map(stage).collect::<Result<_, String>>();
        Ok(Splitter { stages: stages.map_err(|e| format!("{}: {e}", row.names[0]))? })
    }

    /// Calls `each` with the words of `text` in order; they join to `text`.
    pub fn words(&self, text: &str, each: &mut dyn FnMut(&str)) {
        run_stages(&self.stages, text, each);
    }
}

fn run_stages(stages: &[Stage], text: &str, each: &mut dyn FnMut(&str)) {
    if text.is_empty() {
        return;
    }
    let Some((stage, rest)) = stages.split_first() else {
        split_long_word(text, each);
        return;
    };
    let mut next = |piece: &str| run_stages(rest, piece, each);
    match stage {
        Stage::At(automaton) => {
            let (mut from, mut at) = (0, 0);
            while at < text.len() {
                let Some(len) = automaton.find(&text[at..]) else {
                    at += text[at..].chars().next().map_or(1, char::len_utf8);
                    continue;
                };
                next(&text[from..at]);
                next(&text[at..at + len]);
                at += len;
                from = at;
            }
            next(&text[from..]);
        }
        Stage::Thousands { ascii } => thousands(text, *ascii, &mut next),
        Stage::PowersOfTwo => powers_of_two(text, &mut next),
        Stage::TrailingSpace => {
            let (head, tail) = text.split_at(text.trim_end().len());
            next(head);
            next(tail);
        }
    }
}

/// Whether a character is a number of any script.
fn is_number(c: char) -> bool {
    static NUMBERS: std::sync::LazyLock<Vec<(char, char)>> = std::sync::LazyLock::new(|| class(r"\p{N}"));
    c.is_ascii_digit() || !c.is_ascii() && ranges_contain(&NUMBERS, c)
}

/// The ranges of a class of characters, as an expression names it.
pub fn class(expression: &str) -> Vec<(char, char)> {
    let parsed = regex_syntax::parse(expression).map(regex_syntax::hir::Hir::into_kind);
    match parsed {
        Ok(HirKind::Class(Class::Unicode(class))) => class.ranges().iter().map(|r| (r.start(), r.end())).collect(),
        _ => Vec::new(),
    }
}

/// Whether sorted ranges have a character.
pub fn ranges_contain(ranges: &[(char, char)], c: char) -> bool {
    let at = ranges.partition_point(|&(_, end)| end < c);
    ranges.get(at).is_some_and(|&(start, _)| start <= c)
}

fn thousands(text: &str, ascii: bool, each: &mut dyn FnMut(&str)) {
    let counts = |c: char| if ascii { c.is_ascii_digit() } else { is_number(c) };
    let (mut from, mut rest) = (0, text);
    while let Some(start) = rest.find(counts) {
        let start = text.len() - rest.len() + start;
        let end = text[start..].find(|c| !counts(c)).map_or(text.len(), |len| start + len);
        let digits = text[start..end].chars().count();
        // What stands before a group goes with the digits that make up no group of three.
        for (i, (at, _)) in text[start..end].char_indices().enumerate() {
            if (digits - i).is_multiple_of(3) && start + at > from && (ascii || i > 0) {
                each(&text[from..start + at]);
                from = start + at;
            }
        }
        if !ascii {
            each(&text[from..end]);
            from = end;
        }
        rest = &text[end..];
    }
    each(&text[from..]);
}

fn powers_of_two(text: &str, each: &mut dyn FnMut(&str)) {
    if text.ends_with(['\r', '\n']) || !text.chars().all(char::is_whitespace) {
        each(text);
        return;
    }
    let (mut rest, mut left) = (text, text.chars().count());
    while left > 0 {
        let take = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find(|&n| n <= left).unwrap_or(left);
        let end = rest.char_indices().nth(take).map_or(rest.len(), |(at, _)| at);
        each(&rest[..end]);
        (rest, left) = (&rest[end..], left - take);
    }
}

/// Cuts a word at character boundaries into pieces of at most [`MAX_WORD`] bytes.
pub fn split_long_word(mut word: &str, each: &mut dyn FnMut(&str)) {
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
