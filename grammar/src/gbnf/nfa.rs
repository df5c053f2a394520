//! Automata of lexemes: a state for every character that an item names, as Glushkov has them.

use super::{Expr, GrammarRules, ItemKind};

/// Most states.
const MAX_STATES: usize = 400;
/// Most edges.
const MAX_EDGES: usize = 20_000;

/// An automaton; a state is the character that it was entered by.
#[derive(Clone, Debug, Default)]
pub(super) struct Nfa {
    /// Class of each state.
    pub class: Vec<usize>,
    /// States that a text begins with.
    pub first: Vec<usize>,
    /// States that it may end with.
    pub last: Vec<bool>,
    /// States that may follow each.
    pub next: Vec<Vec<usize>>,
    /// Whether the empty text is one.
    pub nullable: bool,
    edges: usize,
}

struct NfaFragment {
    first: Vec<usize>,
    last: Vec<usize>,
    nullable: bool,
}

/// The automaton of an item; none if it is not regular or too large.
pub(super) fn build(rules: &GrammarRules, regular: &[bool], expr: &Expr) -> Option<Nfa> {
    let mut nfa = Nfa::default();
    let part = nfa.part(rules, regular, expr)?;
    nfa.last = vec![false; nfa.class.len()];
    part.last.iter().for_each(|state| nfa.last[*state] = true);
    (nfa.first, nfa.nullable) = (part.first, part.nullable);
    nfa.next.iter_mut().for_each(|next| {
        next.sort_unstable();
        next.dedup();
    });
    Some(nfa)
}

impl Nfa {
    fn link(&mut self, from: &[usize], to: &[usize]) -> Option<()> {
        self.edges += from.len() * to.len();
        from.iter().for_each(|state| self.next[*state].extend(to));
        (self.edges <= MAX_EDGES).then_some(())
    }

    /// `a`, then `b`.
    fn join(&mut self, mut a: NfaFragment, mut b: NfaFragment) -> Option<NfaFragment> {
        self.link(&a.last, &b.first)?;
        if a.nullable {
            a.first.append(&mut b.first);
        }
        if b.nullable {
            b.last.append(&mut a.last);
        }
        Some(NfaFragment { first: a.first, last: b.last, nullable: a.nullable && b.nullable })
    }

    fn part(&mut self, rules: &GrammarRules, regular: &[bool], expr: &Expr) -> Option<NfaFragment> {
        let empty = || NfaFragment { first: vec![], last: vec![], nullable: true };
        match &expr.kind {
            ItemKind::Chars(class) => {
                let state = self.class.len();
                self.class.push(*class);
                self.next.push(Vec::new());
                (state < MAX_STATES).then(|| NfaFragment { first: vec![state], last: vec![state], nullable: false })
            }
            ItemKind::Token { .. } => None,
            ItemKind::Rule(rule) if regular[*rule] => self.part(rules, regular, &rules.bodies[*rule]),
            ItemKind::Rule(_) => None,
            ItemKind::Seq(parts) => parts.iter().try_fold(empty(), |all, part| {
                let part = self.part(rules, regular, part)?;
                self.join(all, part)
            }),
            ItemKind::Alt(parts) => {
                let mut all = NfaFragment { first: vec![], last: vec![], nullable: false };
                for part in parts {
                    let mut part = self.part(rules, regular, part)?;
                    all.first.append(&mut part.first);
                    all.last.append(&mut part.last);
                    all.nullable |= part.nullable;
                }
                Some(all)
            }
            ItemKind::Repeat(part, least, most) => {
                let copies = most.unwrap_or((*least).max(1));
                if copies as usize > MAX_STATES {
                    return None;
                }
                let mut all = empty();
                for copy in 0..copies {
                    let mut part = self.part(rules, regular, part)?;
                    if copy + 1 == copies && most.is_none() {
                        self.link(&part.last.clone(), &part.first.clone())?;
                    }
                    part.nullable |= copy >= *least;
                    all = self.join(all, part)?;
                }
                Some(all)
            }
        }
    }
}
