//! Rules and lexemes as text in Lark.

use super::lexemes::Lexemes;
use super::{Expr, GrammarRules, ItemKind};
use std::collections::HashSet;
use std::fmt::Write;

struct RuleWriter<'a> {
    rules: &'a GrammarRules,
    lexemes: &'a Lexemes,
    out: String,
    /// Lexemes that were written.
    done: HashSet<usize>,
}

/// Writes the grammar down: every rule and every group is a rule, so that nothing is nested.
pub(super) fn write(rules: &GrammarRules, lexemes: &Lexemes) -> String {
    let mut w = RuleWriter { rules, lexemes, out: "start: r0\n".to_string(), done: HashSet::new() };
    for (number, body) in rules.bodies.iter().enumerate().filter(|(number, _)| lexemes.used[*number]) {
        let name = w.item(body);
        let _ = writeln!(w.out, "r{number}: {name}");
    }
    w.out
}

impl RuleWriter<'_> {
    /// Writes what the item needs, and gives what stands for it.
    fn item(&mut self, expr: &Expr) -> String {
        let id = expr.id;
        if let Some(lexeme) = self.lexemes.of.get(&id) {
            if self.done.insert(id) {
                let filled = if lexeme.optional { " & /(?s:.)+/" } else { "" };
                let _ = writeln!(self.out, "T{id}: /{}/{filled}", lexeme.regex);
            }
            return if lexeme.optional { format!("T{id}?") } else { format!("T{id}") };
        }
        let body = match &expr.kind {
            ItemKind::Chars(class) => format!("/{}/", super::lexemes::class_regex(&self.rules.classes[*class])),
            ItemKind::Token { id, not: false } => return format!("<[{id}]>"),
            ItemKind::Token { id, not: true } => return format!("<[^{id}]>"),
            ItemKind::Rule(rule) => return format!("r{rule}"),
            ItemKind::Seq(parts) if parts.is_empty() => return "\"\"".to_string(),
            ItemKind::Seq(parts) => parts.iter().map(|part| self.item(part)).collect::<Vec<_>>().join(" "),
            ItemKind::Alt(parts) => parts.iter().map(|part| self.item(part)).collect::<Vec<_>>().join(" | "),
            ItemKind::Repeat(_, _, Some(0)) => return "\"\"".to_string(),
            ItemKind::Repeat(part, least, most) => {
                let inner = self.item(part);
                let _ = writeln!(self.out, "p{id}: {inner}");
                match (least, most) {
                    (0, None) => format!("p{id}*"),
                    (1, None) => format!("p{id}+"),
                    (least, None) => format!("p{id}{{{least}}} p{id}*"),
                    (least, Some(most)) => format!("p{id}{{{least},{most}}}"),
                }
            }
        };
        let _ = writeln!(self.out, "g{id}: {body}");
        format!("g{id}")
    }
}
