//! Regular expressions as tables: one step a character, no way back.
//!
//! Characters are sorted into the classes that an expression tells apart, and a finite automaton runs over the classes. Takes
//! what the `regex` crate does, and `(?!\S)` at the end of an alternative of the whole expression.

use std::collections::{BTreeSet, HashMap};

use regex_automata::dfa::{dense, Automaton as _, StartKind};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look, Repetition};

/// A compiled expression.
#[derive(Debug)]
pub struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    /// By pattern: whether its last character only had to be seen.
    looks: Vec<bool>,
    ascii: [u8; 128],
    pages: Vec<u8>,
    page_of: Vec<u16>,
}

/// Sets of characters, as ranges.
type Ranges = Vec<(u32, u32)>;

const PAGE: usize = 256;
const PAST_LAST: u32 = 0x11_0000;

impl Automaton {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(expression: &str) -> Result<Automaton, String> {
        let (mut patterns, mut looks, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        let flush = |plain: &mut Vec<&str>, patterns: &mut Vec<String>, looks: &mut Vec<bool>| {
            if !plain.is_empty() {
                patterns.push(plain.join("|"));
                looks.push(false);
                plain.clear();
            }
        };
        for alternative in alternatives(expression) {
            match alternative.strip_suffix(r"(?!\S)") {
                None => plain.push(alternative),
                Some(body) => {
                    // To be followed by space or by nothing: the end, or one more space that is given back.
                    flush(&mut plain, &mut patterns, &mut looks);
                    patterns.extend([format!(r"(?:{body})\z"), format!(r"(?:{body})\s")]);
                    looks.extend([false, true]);
                }
            }
        }
        flush(&mut plain, &mut patterns, &mut looks);
        let parse = |p: &String| regex_syntax::parse(p).map_err(|e| e.to_string());
        let parsed = patterns.iter().map(parse).collect::<Result<Vec<Hir>, String>>()?;
        let mut sets: Vec<Ranges> = Vec::new();
        parsed.iter().for_each(|hir| collect(hir, &mut sets));
        sets.sort();
        sets.dedup();
        let (classes, by_set, ascii, page_of, pages) = partition(&sets);
        if classes > 250 {
            return Err(format!("{classes} classes of characters, expected at most 250"));
        }
        let known: HashMap<&Ranges, &Vec<u8>> = sets.iter().zip(&by_set).collect();
        let hirs: Vec<Hir> = parsed.iter().map(|hir| rewrite(hir, &known)).collect();
        let nfa = thompson::Compiler::new()
            .configure(thompson::Config::new().utf8(false).which_captures(WhichCaptures::None))
            .build_many_from_hir(&hirs)
            .map_err(|e| e.to_string())?;
        let config = dense::Config::new().match_kind(MatchKind::LeftmostFirst).start_kind(StartKind::Anchored);
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|e| e.to_string())?;
        let start = dfa.universal_start_state(Anchored::Yes).ok_or("looks at what stands before")?;
        Ok(Automaton { dfa, start, looks, ascii, pages, page_of })
    }

    fn class(&self, c: char) -> u8 {
        match self.ascii.get(c as usize) {
            Some(&class) => class,
            None => self.pages[usize::from(self.page_of[c as usize / PAGE]) * PAGE + c as usize % PAGE],
        }
    }

    /// Where the match that starts with `text` ends; none if there is no match or only an empty one.
    pub fn find(&self, text: &str) -> Option<usize> {
        let (mut state, mut found, mut before) = (self.start, None, 0);
        let end = |state: StateID, at: usize, before: usize| {
            let looks = self.looks[self.dfa.match_pattern(state, 0).as_usize()];
            Some(if looks { before } else { at })
        };
        for (at, c) in text.char_indices() {
            state = self.dfa.next_state(state, self.class(c));
            if self.dfa.is_special_state(state) {
                if self.dfa.is_match_state(state) {
                    found = end(state, at, before);
                } else if self.dfa.is_dead_state(state) {
                    return found.filter(|&end| end > 0);
                }
            }
            before = at;
        }
        state = self.dfa.next_eoi_state(state);
        if self.dfa.is_match_state(state) {
            found = end(state, text.len(), before);
        }
        found.filter(|&end| end > 0)
    }
}

/// The alternatives of an expression, outermost only.
fn alternatives(expression: &str) -> Vec<&str> {
    let (mut out, mut from, mut depth, mut in_class, mut escaped) = (Vec::new(), 0, 0, 0, false);
    for (at, c) in expression.char_indices() {
        match c {
            _ if escaped => {
                escaped = false;
                continue;
            }
            '\\' => escaped = true,
            '[' => in_class += 1,
            ']' => in_class -= 1,
            '(' if in_class == 0 => depth += 1,
            ')' if in_class == 0 => depth -= 1,
            '|' if in_class == 0 && depth == 0 => {
                out.push(&expression[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(&expression[from..]);
    out
}

fn ranges(class: &Class) -> Ranges {
    match class {
        Class::Unicode(class) => class.ranges().iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect(),
        Class::Bytes(class) => class.ranges().iter().map(|r| (r.start().into(), r.end().into())).collect(),
    }
}

fn letters(literal: &[u8]) -> Vec<Ranges> {
    String::from_utf8_lossy(literal).chars().map(|c| vec![(u32::from(c), u32::from(c))]).collect()
}

/// All sets of characters that an expression names.
fn collect(hir: &Hir, sets: &mut Vec<Ranges>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => sets.extend(letters(&literal.0)),
        HirKind::Class(class) => sets.push(ranges(class)),
        HirKind::Repetition(repetition) => collect(&repetition.sub, sets),
        HirKind::Capture(capture) => collect(&capture.sub, sets),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().for_each(|part| collect(part, sets)),
    }
}

/// The expression over classes instead of characters.
fn rewrite(hir: &Hir, known: &HashMap<&Ranges, &Vec<u8>>) -> Hir {
    let class = |ranges: Ranges| {
        let ids = known.get(&ranges).map_or(&[][..], |ids| ids.as_slice());
        Hir::class(Class::Bytes(ClassBytes::new(ids.iter().map(|&id| ClassBytesRange::new(id, id)))))
    };
    match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(_) => Hir::look(Look::End),
        HirKind::Literal(literal) => Hir::concat(letters(&literal.0).into_iter().map(class).collect()),
        HirKind::Class(set) => class(ranges(set)),
        HirKind::Repetition(r) => Hir::repetition(Repetition {
            min: r.min,
            max: r.max,
            greedy: r.greedy,
            sub: Box::new(rewrite(&r.sub, known)),
        }),
        HirKind::Capture(capture) => rewrite(&capture.sub, known),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(|part| rewrite(part, known)).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(|part| rewrite(part, known)).collect()),
    }
}

/// Sorts all characters by the sets that they are in: the number of classes, the classes of each set, and the class of each
/// character as a table.
type Partition = (usize, Vec<Vec<u8>>, [u8; 128], Vec<u16>, Vec<u8>);

fn partition(sets: &[Ranges]) -> Partition {
    let mut borders: BTreeSet<u32> = [0].into();
    for &(from, to) in sets.iter().flatten() {
        borders.extend([from, to + 1]);
    }
    let borders: Vec<u32> = borders.into_iter().filter(|&b| b < PAST_LAST).collect();
    let mut members: Vec<Vec<u16>> = vec![Vec::new(); borders.len()];
    for (set, all) in sets.iter().enumerate() {
        for &(from, to) in all {
            let first = borders.partition_point(|&b| b < from);
            let last = borders.partition_point(|&b| b <= to);
            members[first..last].iter_mut().for_each(|m| m.push(set as u16));
        }
    }
    let (mut ids, mut by_set) = (HashMap::new(), vec![Vec::new(); sets.len()]);
    let mut class_of = vec![0u8; PAST_LAST as usize];
    for (i, member) in members.iter().enumerate() {
        let next = ids.len();
        let id = *ids.entry(member).or_insert_with(|| {
            member.iter().for_each(|&set| by_set[usize::from(set)].push(next as u8));
            next
        });
        let end = borders.get(i + 1).copied().unwrap_or(PAST_LAST);
        class_of[borders[i] as usize..end as usize].fill(id as u8);
    }
    let mut ascii = [0; 128];
    ascii.copy_from_slice(&class_of[..128]);
    let (mut seen, mut page_of, mut pages) = (HashMap::new(), Vec::new(), Vec::new());
    for page in class_of.chunks(PAGE) {
        let next = seen.len() as u16;
        page_of.push(*seen.entry(page).or_insert_with(|| {
            pages.extend_from_slice(page);
            next
        }));
    }
    (ids.len(), by_set, ascii, page_of, pages)
}
