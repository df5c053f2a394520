//! Text to rules: a total parser, whose errors name line and column.

use super::{Class, Expr, GrammarRules, ItemKind, MAX_DEPTH, MAX_REPEAT, MAX_WEIGHT};
use crate::{Error, Result};
use std::collections::HashMap;

/// Most rules.
const MAX_RULES: usize = 10_000;
const LAST: u32 = 0x10_ffff;
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

struct Parser<'a> {
    text: &'a str,
    at: usize,
    token: &'a dyn Fn(&str) -> Option<u32>,
    /// Number of each rule's name, and where it was named first.
    names: HashMap<&'a str, (usize, usize)>,
    bodies: Vec<Option<Expr>>,
    classes: Vec<Class>,
    class_ids: HashMap<Class, usize>,
    next_id: usize,
    /// Items so far, with bounded repetitions written out.
    weight: u64,
}

/// Parses a grammar.
///
/// # Errors
/// Where the text is no grammar.
pub(super) fn parse(text: &str, token: &dyn Fn(&str) -> Option<u32>) -> Result<GrammarRules> {
    let mut parser = Parser {
        text,
        at: 0,
        token,
        names: HashMap::new(),
        bodies: Vec::new(),
        classes: Vec::new(),
        class_ids: HashMap::new(),
        next_id: 0,
        weight: 0,
    };
    parser.rule_number("root")?;
    parser.space(true);
    while parser.peek().is_some() {
        parser.rule()?;
    }
    let named = parser.names.iter().map(|(name, (number, at))| (*at, *name, *number));
    let missing = named.filter(|(.., number)| parser.bodies[*number].is_none()).min();
    if let Some((at, name, _)) = missing {
        parser.at = at;
        return Err(match name {
            "root" => Error::new("grammar: expected a rule root, found none"),
            _ => parser.error(&format!("rule {name} is used, but not there")),
        });
    }
    Ok(GrammarRules { bodies: parser.bodies.into_iter().flatten().collect(), classes: parser.classes })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    /// An error here.
    fn error(&self, what: &str) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        Error::new(format!("grammar: line {line}, column {column}: {what}"))
    }

    fn expected_error(&self, what: &str) -> Error {
        let found = self.peek().map_or("the end".to_string(), |c| format!("{c:?}"));
        self.error(&format!("expected {what}, found {found}"))
    }

    /// Skips space and comments; line ends, too, if `lines`.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '#' => self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()),
                '\n' | '\r' if lines => self.at += 1,
                _ => break,
            }
        }
    }

    fn name(&mut self) -> Result<&'a str> {
        let len = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        if len == 0 {
            return Err(self.expected_error("a rule's name"));
        }
        let name = &self.rest()[..len];
        self.at += len;
        Ok(name)
    }

    fn rule_number(&mut self, name: &'a str) -> Result<usize> {
        let at = self.at.saturating_sub(name.len());
        let next = self.bodies.len();
        let (number, _) = *self.names.entry(name).or_insert((next, at));
        if number == next {
            if next == MAX_RULES {
                return Err(self.error(&format!("more than {MAX_RULES} rules")));
            }
            self.bodies.push(None);
        }
        Ok(number)
    }

    fn rule(&mut self) -> Result<()> {
        let name = self.name()?;
        let number = self.rule_number(name)?;
        self.space(false);
        if !self.eat("::=") {
            return Err(self.expected_error("::="));
        }
        self.space(true);
        let body = self.alternatives(0)?;
        if !matches!(self.peek(), None | Some('\n' | '\r')) {
            return Err(self.expected_error("a line end"));
        }
        self.bodies[number] = Some(body);
        self.space(true);
        Ok(())
    }

    fn add_item(&mut self, kind: ItemKind) -> Expr {
        self.next_id += 1;
        Expr { id: self.next_id, kind }
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expr> {
        if depth > MAX_DEPTH {
            return Err(self.error(&format!("groups are nested deeper than {MAX_DEPTH}")));
        }
        let mut all = vec![self.sequence(depth)?];
        while self.eat("|") {
            self.space(true);
            all.push(self.sequence(depth)?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => self.add_item(ItemKind::Alt(all)),
        })
    }

    fn sequence(&mut self, depth: usize) -> Result<Expr> {
        let mut items: Vec<Expr> = Vec::new();
        let mut before = self.weight;
        while let Some(c) = self.peek() {
            let bounds = match c {
                '*' => Some((0, None)),
                '+' => Some((1, None)),
                '?' => Some((0, Some(1))),
                '{' => None,
                _ => {
                    before = self.weight;
                    match self.item(c, depth)? {
                        Some(item) => items.push(item),
                        None => break,
                    }
                    self.weigh(1)?;
                    self.space(depth > 0);
                    continue;
                }
            };
            let Some(item) = items.pop() else { return Err(self.expected_error("an item before what repeats it")) };
            let (least, most) = match bounds {
                Some(bounds) => {
                    self.at += 1;
                    bounds
                }
                None => self.bounds(depth > 0)?,
            };
            let times = most.unwrap_or(least).max(1);
            self.weigh((self.weight - before).saturating_mul(u64::from(times - 1)))?;
            let repeat = self.add_item(ItemKind::Repeat(Box::new(item), least, most));
            items.push(repeat);
            self.space(depth > 0);
        }
        Ok(match items.len() {
            1 => items.remove(0),
            _ => self.add_item(ItemKind::Seq(items)),
        })
    }

    fn weigh(&mut self, more: u64) -> Result<()> {
        self.weight = self.weight.saturating_add(more);
        if self.weight > MAX_WEIGHT {
            return Err(self.error(&format!("more than {MAX_WEIGHT} items, repetitions counted")));
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`.
    fn bounds(&mut self, lines: bool) -> Result<(u32, Option<u32>)> {
        self.at += 1;
        self.space(lines);
        let least = self.number()?;
        self.space(lines);
        let mut most = Some(least);
        if self.eat(",") {
            self.space(lines);
            most = if self.peek() == Some('}') { None } else { Some(self.number()?) };
            self.space(lines);
        }
        if !self.eat("}") {
            return Err(self.expected_error("} behind the repetitions"));
        }
        if most.is_some_and(|most| most < least) {
            return Err(self.error(&format!("expected at least {least} repetitions at most, found fewer")));
        }
        Ok((least, most))
    }

    fn digits(&mut self) -> &'a str {
        let len = self.rest().find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest().len());
        let digits = &self.rest()[..len];
        self.at += len;
        digits
    }

    fn number(&mut self) -> Result<u32> {
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.expected_error("a number of repetitions"));
        }
        digits
            .parse()
            .ok()
            .filter(|n| *n <= MAX_REPEAT)
            .ok_or_else(|| self.error(&format!("expected at most {MAX_REPEAT} repetitions, found {:.20}", digits)))
    }

    /// The item that starts with `c`; none where no item does.
    fn item(&mut self, c: char, depth: usize) -> Result<Option<Expr>> {
        let kind = match c {
            '"' => return self.string().map(Some),
            '[' => {
                let class = self.class()?;
                ItemKind::Chars(self.class_id(class))
            }
            '.' => {
                self.at += 1;
                ItemKind::Chars(self.class_id(negate_ranges(Vec::new())))
            }
            '<' | '!' => {
                let not = self.eat("!");
                ItemKind::Token { id: self.token_id()?, not }
            }
            '(' => {
                self.at += 1;
                self.space(true);
                let group = self.alternatives(depth + 1)?;
                if !self.eat(")") {
                    return Err(self.expected_error(")"));
                }
                return Ok(Some(group));
            }
            c if is_word(c) => {
                let name = self.name()?;
                ItemKind::Rule(self.rule_number(name)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(self.add_item(kind)))
    }

    fn string(&mut self) -> Result<Expr> {
        self.at += 1;
        let mut chars = Vec::new();
        while !self.eat("\"") {
            let c = self.character("\" behind the string")?;
            let class = self.class_id(vec![(c, c)]);
            chars.push(self.add_item(ItemKind::Chars(class)));
            self.weigh(1)?;
        }
        Ok(match chars.len() {
            1 => chars.remove(0),
            _ => self.add_item(ItemKind::Seq(chars)),
        })
    }

    /// A code point, escaped or not.
    fn character(&mut self, end: &str) -> Result<u32> {
        let start = self.at;
        let c = self.next().ok_or_else(|| self.expected_error(end))?;
        if c != '\\' {
            return Ok(u32::from(c));
        }
        let code = match self.next() {
            Some('x') => self.hex(2)?,
            Some('u') => self.hex(4)?,
            Some('U') => self.hex(8)?,
            Some('t') => 9,
            Some('n') => 10,
            Some('r') => 13,
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/')) => u32::from(c),
            _ => {
                self.at = start;
                return Err(self.error("unknown escape"));
            }
        };
        match char::from_u32(code) {
            Some(_) => Ok(code),
            None => {
                self.at = start;
                Err(self.error(&format!("code point {code:x} is no character")))
            }
        }
    }

    fn hex(&mut self, digits: usize) -> Result<u32> {
        let text = self.rest().get(..digits).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(text) = text else { return Err(self.expected_error(&format!("{digits} hexadecimal digits"))) };
        self.at += digits;
        u32::from_str_radix(text, 16).map_err(|_| self.expected_error("hexadecimal digits"))
    }

    fn class(&mut self) -> Result<Class> {
        let start = self.at;
        self.at += 1;
        let not = self.eat("^");
        let mut ranges = Vec::new();
        while !self.eat("]") {
            let first = self.character("] behind the characters")?;
            let range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            let last = if range {
                self.at += 1;
                self.character("] behind the characters")?
            } else {
                first
            };
            if last < first {
                return Err(self.error("the range's last character comes before its first"));
            }
            ranges.push((first, last));
        }
        let class = if not { negate_ranges(ranges) } else { without_surrogates(merge_ranges(ranges)) };
        if class.is_empty() {
            self.at = start;
            return Err(self.error("no character is in these brackets"));
        }
        Ok(class)
    }

    fn class_id(&mut self, class: Class) -> usize {
        if let Some(id) = self.class_ids.get(&class) {
            return *id;
        }
        self.class_ids.insert(class.clone(), self.classes.len());
        self.classes.push(class);
        self.classes.len() - 1
    }

    /// `<[id]>` or `<text>`.
    fn token_id(&mut self) -> Result<u32> {
        let start = self.at;
        if !self.eat("<") {
            return Err(self.expected_error("<"));
        }
        if self.eat("[") {
            let id = self.digits().parse().map_err(|_| self.expected_error("a token's id"))?;
            if !self.eat("]>") {
                return Err(self.expected_error("]>"));
            }
            return Ok(id);
        }
        let end = self.rest().find('>').filter(|end| !self.rest()[..*end].contains(['\n', '\r']));
        let Some(end) = end else { return Err(self.error("expected > behind a token's text")) };
        self.at += end + 1;
        let text = &self.text[start..self.at];
        (self.token)(text).ok_or_else(|| {
            let what = format!("{text:.80} is no token of the vocabulary");
            self.at = start;
            self.error(&what)
        })
    }
}

/// Ranges in order, joined where they meet.
fn merge_ranges(mut ranges: Vec<(u32, u32)>) -> Class {
    ranges.sort_unstable();
    let mut out: Class = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

fn negate_ranges(ranges: Vec<(u32, u32)>) -> Class {
    let (mut out, mut next) = (Class::new(), 0);
    for (first, last) in merge_ranges(ranges) {
        if next < first {
            out.push((next, first - 1));
        }
        next = last + 1;
    }
    if next <= LAST {
        out.push((next, LAST));
    }
    without_surrogates(out)
}

/// Halves of UTF-16's pairs are no characters.
fn without_surrogates(ranges: Class) -> Class {
    let parts = ranges.into_iter().flat_map(|(first, last)| {
        let below = (first, last.min(SURROGATES.0 - 1));
        let above = (first.max(SURROGATES.1 + 1), last);
        [below, above]
    });
    parts.filter(|(first, last)| first <= last).collect()
}
