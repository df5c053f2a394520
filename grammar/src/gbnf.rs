//! GBNF, llama.cpp's notation of grammars, and its translation to Lark.
//!
//! [`parse`](parse::parse) reads the text into rules, [`lexemes`] decides which of their parts the lexer may take in one piece, so that
//! what is allowed stays what the rules say character by character, and [`lark`] writes them down.

mod lark;
mod lexemes;
mod nfa;
mod parse;

use crate::{Error, Result};

/// Most repetitions of an item, as in llama.cpp.
const MAX_REPEAT: u32 = 2000;
/// Deepest nesting of groups.
const MAX_DEPTH: usize = 100;
/// Most items of a grammar when its bounded repetitions are written out.
const MAX_WEIGHT: u64 = 20_000;

/// A set of characters: ranges of code points, rising and apart.
type Class = Vec<(u32, u32)>;

/// An item of a rule.
#[derive(Clone, Debug)]
struct Expr {
    /// Different for all items of a grammar.
    id: usize,
    kind: ItemKind,
}

#[derive(Clone, Debug)]
enum ItemKind {
    /// One character of the class of this number.
    Chars(usize),
    /// The token of an id, or any other one.
    Token {
        id: u32,
        not: bool,
    },
    /// The rule of this number.
    Rule(usize),
    Seq(Vec<Expr>),
    Alt(Vec<Expr>),
    Repeat(Box<Expr>, u32, Option<u32>),
}

impl Expr {
    /// The items that it is made of.
    fn parts(&self) -> &[Expr] {
        match &self.kind {
            ItemKind::Seq(parts) | ItemKind::Alt(parts) => parts,
            ItemKind::Repeat(part, ..) => std::slice::from_ref(part),
            ItemKind::Chars(_) | ItemKind::Token { .. } | ItemKind::Rule(_) => &[],
        }
    }
}

/// Rules; that of number 0 says what the whole text is.
#[derive(Debug)]
struct GrammarRules {
    bodies: Vec<Expr>,
    classes: Vec<Class>,
}

/// The grammar in Lark. `token` gives the id of a token by its text.
///
/// # Errors
/// Where the text is no grammar, by line and column; a grammar over the limits, or one that no text matches.
pub(crate) fn to_lark(text: &str, token: &dyn Fn(&str) -> Option<u32>) -> Result<String> {
    let rules = parse::parse(text, token)?;
    if !derives_something(&rules) {
        return Err(Error::new("grammar: no text matches rule root, whose recursion never ends"));
    }
    let lexemes = lexemes::choose(&rules);
    Ok(lark::write(&rules, &lexemes))
}

/// Whether rule 0 has an end.
fn derives_something(rules: &GrammarRules) -> bool {
    fn ends(expr: &Expr, known: &[bool]) -> bool {
        match &expr.kind {
            ItemKind::Chars(_) | ItemKind::Token { .. } => true,
            ItemKind::Rule(rule) => known[*rule],
            ItemKind::Seq(parts) => parts.iter().all(|part| ends(part, known)),
            ItemKind::Alt(parts) => parts.iter().any(|part| ends(part, known)),
            ItemKind::Repeat(part, least, _) => *least == 0 || ends(part, known),
        }
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); rules.bodies.len()];
    for (rule, body) in rules.bodies.iter().enumerate() {
        each(body, &mut |expr| {
            if let ItemKind::Rule(used) = expr.kind {
                users[used].push(rule);
            }
        });
    }
    let mut known = vec![false; rules.bodies.len()];
    let mut queue: Vec<usize> = (0..known.len()).collect();
    while let Some(rule) = queue.pop() {
        if !known[rule] && ends(&rules.bodies[rule], &known) {
            known[rule] = true;
            queue.extend(&users[rule]);
        }
    }
    known[0]
}

/// Calls `f` with an item and all items in it.
fn each<'a>(expr: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    f(expr);
    expr.parts().iter().for_each(|part| each(part, f));
}
