//! Which items of a grammar the lexer takes in one piece.
//!
//! A lexer reads as far as any lexeme goes on, and does not come back. So that this is what the rules mean, no lexeme that begins
//! at the same place as another may go on with a character that may also follow the other: items of which that holds are split into
//! their parts, down to single characters, of which it never does.

use super::nfa::{self, Nfa};
use super::{each, Class, Expr, GrammarRules, ItemKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// Most rounds of splitting, passes over the rules in one, and pairs of states looked at in one.
const MAX_ROUNDS: usize = 60;
const MAX_PASSES: usize = 40;
const MAX_PAIRS: usize = 2_000_000;
/// Most words of all sets of characters.
const MAX_WORDS: usize = 1_000_000;
/// Deepest nesting of a lexeme's expression, and most bytes of it.
const MAX_NESTING: usize = 100;
const MAX_REGEX: usize = 8_000;

/// An item that is a lexeme.
pub(super) struct Lexeme {
    /// Its expression.
    pub regex: String,
    /// The item may be empty; the lexeme never is.
    pub optional: bool,
}

/// What was chosen.
pub(super) struct Lexemes {
    /// By the item's id; single characters that are not here are lexemes, too.
    pub of: HashMap<usize, Lexeme>,
    /// Rules that are named outside of lexemes.
    pub used: Vec<bool>,
}

/// A set of characters, as bits of the ranges that no class cuts.
type Bits = Vec<u64>;

fn add(to: &mut Bits, more: &Bits) -> bool {
    let mut changed = false;
    for (a, b) in to.iter_mut().zip(more) {
        changed |= *b & !*a != 0;
        *a |= b;
    }
    changed
}

fn meet(a: &Bits, b: &Bits) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// An expression of one character of a class.
pub(super) fn class_regex(class: &Class) -> String {
    let mut out = "[".to_string();
    for (first, last) in class {
        let _ = if first == last {
            write!(out, "\\x{{{first:x}}}")
        } else {
            write!(out, "\\x{{{first:x}}}-\\x{{{last:x}}}")
        };
    }
    out + "]"
}

/// Appends an item's expression; false if it is too long or too deep.
fn regex(rules: &GrammarRules, expr: &Expr, depth: usize, out: &mut String) -> bool {
    if depth > MAX_NESTING || out.len() > MAX_REGEX {
        return false;
    }
    match &expr.kind {
        ItemKind::Chars(class) => out.push_str(&class_regex(&rules.classes[*class])),
        ItemKind::Token { .. } => return false,
        ItemKind::Rule(rule) => return regex(rules, &rules.bodies[*rule], depth, out),
        ItemKind::Seq(parts) | ItemKind::Alt(parts) => {
            out.push_str("(?:");
            for (i, part) in parts.iter().enumerate() {
                if i > 0 && matches!(expr.kind, ItemKind::Alt(_)) {
                    out.push('|');
                }
                if !regex(rules, part, depth + 1, out) {
                    return false;
                }
            }
            out.push(')');
        }
        ItemKind::Repeat(part, least, most) => {
            out.push_str("(?:");
            if !regex(rules, part, depth + 1, out) {
                return false;
            }
            let most = most.map_or(String::new(), |most| most.to_string());
            let _ = write!(out, "){{{least},{most}}}");
        }
    }
    true
}

/// Rules that name no token, and of those that they name none is itself.
fn regular(rules: &GrammarRules) -> Vec<bool> {
    let mut known = vec![false; rules.bodies.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); known.len()];
    let mut open = vec![(0usize, false); known.len()]; // names of rules not known yet; whether it names a token
    for (rule, body) in rules.bodies.iter().enumerate() {
        each(body, &mut |expr| match expr.kind {
            ItemKind::Rule(used) => {
                users[used].push(rule);
                open[rule].0 += 1;
            }
            ItemKind::Token { .. } => open[rule].1 = true,
            _ => (),
        });
    }
    let mut queue: Vec<usize> = (0..known.len()).filter(|rule| open[*rule] == (0, false)).collect();
    while let Some(rule) = queue.pop() {
        known[rule] = true;
        for user in &users[rule] {
            open[*user].0 -= 1;
            if open[*user] == (0, false) {
                queue.push(*user);
            }
        }
    }
    known
}

struct LexemeChoice<'a> {
    rules: &'a GrammarRules,
    regular: Vec<bool>,
    class_bits: Vec<Bits>,
    empty: Bits,
    split: HashSet<usize>,
    /// Automata by item; none where there is none.
    made: HashMap<usize, Option<(Nfa, String)>>,
}

/// What is known of items and rules in a round.
#[derive(Default)]
struct FirstSets {
    /// By rule: characters that it begins with, whether it may be empty, and characters behind it.
    rules: Vec<(Bits, bool, Bits)>,
    items: HashMap<usize, (Bits, bool)>,
    follow: BTreeMap<usize, Bits>,
    used: Vec<bool>,
    changed: bool,
}

/// Chooses the lexemes.
pub(super) fn choose(rules: &GrammarRules) -> Lexemes {
    let cuts: BTreeSet<u32> = rules.classes.iter().flatten().flat_map(|(a, b)| [*a, b + 1]).collect();
    let cuts: Vec<u32> = cuts.into_iter().collect();
    let words = cuts.len().div_ceil(64).max(1);
    let mut items = 0usize;
    rules.bodies.iter().for_each(|body| each(body, &mut |_| items += 1));
    let mut choice = LexemeChoice {
        rules,
        regular: regular(rules),
        class_bits: Vec::new(),
        empty: vec![0; words],
        split: HashSet::new(),
        made: HashMap::new(),
    };
    if (items + rules.classes.len()).saturating_mul(words) > MAX_WORDS {
        return choice.single();
    }
    for class in &rules.classes {
        let mut bits = choice.empty.clone();
        for (first, last) in class {
            let from = cuts.partition_point(|cut| cut < first);
            let to = cuts.partition_point(|cut| cut <= last);
            (from..to).for_each(|i| bits[i / 64] |= 1 << (i % 64));
        }
        choice.class_bits.push(bits);
    }
    for _ in 0..MAX_ROUNDS {
        let Some(known) = choice.follow() else { break };
        let Some(found) = choice.conflicts(&known) else { break };
        if found.is_empty() {
            return choice.choose_lexemes(&known);
        }
        choice.split.extend(found);
    }
    choice.single()
}

impl LexemeChoice<'_> {
    /// Every character is a lexeme.
    fn single(&self) -> Lexemes {
        Lexemes { of: HashMap::new(), used: vec![true; self.rules.bodies.len()] }
    }

    fn choose_lexemes(&self, known: &FirstSets) -> Lexemes {
        let found = known.follow.keys().filter_map(|id| self.made.get(id)?.as_ref().map(|made| (*id, made)));
        let of =
            found.map(|(id, (nfa, regex))| (id, Lexeme { regex: regex.clone(), optional: nfa.nullable })).collect();
        Lexemes { of, used: known.used.clone() }
    }

    /// The automaton of an item, if it is to be a lexeme.
    fn lexeme(&mut self, expr: &Expr) -> Option<&Nfa> {
        if self.split.contains(&expr.id) || matches!(expr.kind, ItemKind::Rule(_) | ItemKind::Token { .. }) {
            return None;
        }
        if !self.made.contains_key(&expr.id) {
            let mut text = String::new();
            let nfa = nfa::build(self.rules, &self.regular, expr).filter(|nfa| !nfa.class.is_empty());
            let made = nfa.filter(|_| regex(self.rules, expr, 0, &mut text)).map(|nfa| (nfa, text));
            self.made.insert(expr.id, made);
        }
        self.made[&expr.id].as_ref().map(|(nfa, _)| nfa)
    }

    fn bits(&self, nfa: &Nfa, states: &[usize]) -> Bits {
        let mut bits = self.empty.clone();
        states.iter().for_each(|state| {
            add(&mut bits, &self.class_bits[nfa.class[*state]]);
        });
        bits
    }

    /// What each lexeme may be followed by.
    fn follow(&mut self) -> Option<FirstSets> {
        let rules = self.rules;
        let mut known = FirstSets { used: vec![false; rules.bodies.len()], ..FirstSets::default() };
        known.rules = vec![(self.empty.clone(), false, self.empty.clone()); rules.bodies.len()];
        let mut passes = 0;
        loop {
            known.changed = false;
            for (number, body) in rules.bodies.iter().enumerate().rev() {
                let (first, nullable) = self.begins(body, &mut known);
                let rule = &mut known.rules[number];
                known.changed |= add(&mut rule.0, &first) | (nullable != rule.1);
                rule.1 = nullable;
            }
            passes += 1;
            if !known.changed {
                break;
            }
            if passes > MAX_PASSES {
                return None;
            }
        }
        known.used[0] = true;
        for _ in 0..MAX_PASSES {
            known.changed = false;
            for (number, body) in rules.bodies.iter().enumerate() {
                if known.used[number] {
                    let behind = known.rules[number].2.clone();
                    self.compute_follow_sets(body, behind, &mut known);
                }
            }
            if !known.changed {
                return Some(known);
            }
        }
        None
    }

    fn begins(&mut self, expr: &Expr, known: &mut FirstSets) -> (Bits, bool) {
        let found = if let Some(nfa) = self.lexeme(expr).cloned() {
            (self.bits(&nfa, &nfa.first), nfa.nullable)
        } else {
            let mut first = self.empty.clone();
            let nullable = match &expr.kind {
                ItemKind::Chars(class) => {
                    add(&mut first, &self.class_bits[*class]);
                    false
                }
                ItemKind::Token { .. } => false,
                ItemKind::Rule(rule) => {
                    add(&mut first, &known.rules[*rule].0);
                    known.rules[*rule].1
                }
                ItemKind::Seq(parts) => {
                    let mut nullable = true;
                    for part in parts {
                        let (more, empty) = self.begins(part, known);
                        if nullable {
                            add(&mut first, &more);
                        }
                        nullable &= empty;
                    }
                    nullable
                }
                ItemKind::Alt(parts) => {
                    let mut nullable = false;
                    for part in parts {
                        let (more, empty) = self.begins(part, known);
                        add(&mut first, &more);
                        nullable |= empty;
                    }
                    nullable
                }
                ItemKind::Repeat(part, least, _) => {
                    let (more, empty) = self.begins(part, known);
                    add(&mut first, &more);
                    empty || *least == 0
                }
            };
            (first, nullable)
        };
        known.items.insert(expr.id, found.clone());
        found
    }

    fn compute_follow_sets(&mut self, expr: &Expr, mut behind: Bits, known: &mut FirstSets) {
        if self.lexeme(expr).is_some() || matches!(expr.kind, ItemKind::Chars(_)) {
            let new = !known.follow.contains_key(&expr.id);
            let follow = known.follow.entry(expr.id).or_insert_with(|| self.empty.clone());
            known.changed |= add(follow, &behind) | new;
            return;
        }
        match &expr.kind {
            ItemKind::Rule(rule) => {
                known.changed |= add(&mut known.rules[*rule].2, &behind) | !known.used[*rule];
                known.used[*rule] = true;
            }
            ItemKind::Seq(parts) => {
                for part in parts.iter().rev() {
                    self.compute_follow_sets(part, behind.clone(), known);
                    let (first, nullable) = &known.items[&part.id];
                    if !nullable {
                        behind = self.empty.clone();
                    }
                    add(&mut behind, first);
                }
            }
            ItemKind::Alt(parts) => parts.iter().for_each(|part| self.compute_follow_sets(part, behind.clone(), known)),
            ItemKind::Repeat(part, _, most) => {
                if *most != Some(1) {
                    add(&mut behind, &known.items[&part.id].0);
                }
                self.compute_follow_sets(part, behind, known);
            }
            ItemKind::Chars(_) | ItemKind::Token { .. } => (),
        }
    }

    /// Lexemes to be split; none if there is too much to look at.
    fn conflicts(&self, known: &FirstSets) -> Option<HashSet<usize>> {
        let nfas: Vec<(usize, &Nfa, &Bits)> = known
            .follow
            .iter()
            .filter_map(|(id, follow)| Some((*id, &self.made.get(id)?.as_ref()?.0, follow)))
            .collect();
        let firsts: Vec<Bits> = nfas.iter().map(|(_, nfa, _)| self.bits(nfa, &nfa.first)).collect();
        let (mut found, mut left) = (HashSet::new(), MAX_PAIRS);
        for (i, (_, a, follow)) in nfas.iter().enumerate() {
            for (j, (id, b, _)) in nfas.iter().enumerate() {
                left = left.checked_sub(1)?;
                let longer = b.class.len() > 1 || b.next.iter().any(|next| !next.is_empty());
                if longer && meet(&firsts[i], &firsts[j]) && self.goes_on(a, follow, b, &mut left)? {
                    found.insert(*id);
                }
            }
        }
        Some(found)
    }

    /// Whether behind a text of `a`, `b` goes on with a character of `follow`.
    fn goes_on(&self, a: &Nfa, follow: &Bits, b: &Nfa, left: &mut usize) -> Option<bool> {
        let mut seen: HashSet<(usize, usize)> = HashSet::new();
        let mut queue: Vec<(usize, usize)> = Vec::new();
        let mut pairs = |from: &[usize], to: &[usize], queue: &mut Vec<(usize, usize)>| {
            for p in from {
                for q in to {
                    *left = left.checked_sub(1)?;
                    if meet(&self.class_bits[a.class[*p]], &self.class_bits[b.class[*q]]) && seen.insert((*p, *q)) {
                        queue.push((*p, *q));
                    }
                }
            }
            Some(())
        };
        pairs(&a.first, &b.first, &mut queue)?;
        while let Some((p, q)) = queue.pop() {
            if a.last[p] && b.next[q].iter().any(|next| meet(&self.class_bits[b.class[*next]], follow)) {
                return Some(true);
            }
            pairs(&a.next[p], &b.next[q], &mut queue)?;
        }
        Some(false)
    }
}
