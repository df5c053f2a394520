//! A template's source as tokens: text, and what stands in `{{ }}` and `{% %}`, with white space trimmed as transformers sets it
//! (`trim_blocks`, `lstrip_blocks`).

use std::sync::Arc;

use crate::error::{Error, Result};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Text(Arc<str>),
    /// `{{`
    PrintBegin,
    /// `}}`
    PrintEnd,
    /// `{%`
    BlockBegin,
    /// `%}`
    BlockEnd,
    Name(Arc<str>),
    Str(Arc<str>),
    Int(i128),
    Float(f64),
    Op(&'static str),
}

/// Longer ones first.
const OPERATORS: [&str; 27] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";", "!",
];

/// Reads the source into tokens with their lines.
pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, usize)>> {
    let unified = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = unified.strip_suffix('\n').unwrap_or(&unified);
    let mut lexer = Lexer { source, at: 0, line: 1, counted: 0, line_start: true, tokens: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Up to where `line` has counted.
    counted: usize,
    /// Whether the last token ended with a line end, or none was yet.
    line_start: bool,
    tokens: Vec<(Token, usize)>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn count_to(&mut self, at: usize) {
        self.line += self.source[self.counted..at].matches('\n').count();
        self.counted = at;
    }

    fn push(&mut self, token: Token) {
        self.count_to(self.at);
        self.tokens.push((token, self.line));
    }

    fn fail<T>(&mut self, message: impl Into<String>) -> Result<T> {
        self.count_to(self.at);
        Err(Error::Syntax { line: self.line, message: message.into() })
    }

    fn run(&mut self) -> Result<()> {
        while let Some((open, kind)) = self.next_opening() {
            let sign = self.source.as_bytes().get(open + 2).copied().filter(|b| matches!(b, b'-' | b'+'));
            self.text(open, sign, kind != b'{');
            self.at = open + 2 + usize::from(sign.is_some());
            match kind {
                b'#' => self.comment()?,
                b'{' => {
                    self.push(Token::PrintBegin);
                    self.inside("}}", Token::PrintEnd)?;
                }
                _ => match self.raw_start() {
                    Some(start) => self.raw(start)?,
                    None => {
                        self.push(Token::BlockBegin);
                        self.inside("%}", Token::BlockEnd)?;
                    }
                },
            }
            self.line_start = self.source[..self.at].ends_with('\n');
        }
        self.text(self.source.len(), None, false);
        Ok(())
    }

    /// The next `{{`, `{%` or `{#`.
    fn next_opening(&self) -> Option<(usize, u8)> {
        let bytes = self.source.as_bytes();
        let mut at = self.at;
        loop {
            at += self.source[at..].find('{')?;
            match bytes.get(at + 1) {
                Some(kind @ (b'{' | b'%' | b'#')) => return Some((at, *kind)),
                _ => at += 1,
            }
        }
    }

    /// Text up to an opening, trimmed as the opening's sign and kind say.
    fn text(&mut self, end: usize, sign: Option<u8>, block: bool) {
        let mut text = &self.source[self.at..end];
        if sign == Some(b'-') {
            text = text.trim_end();
        } else if sign.is_none() && block {
            let start = text.rfind('\n').map_or(0, |at| at + 1);
            if (start > 0 || self.line_start) && text[start..].trim().is_empty() {
                text = &text[..start];
            }
        }
        if !text.is_empty() {
            self.push(Token::Text(text.into()));
        }
    }

    /// Goes behind a closing mark: its sign was read already.
    fn close(&mut self, sign: Option<u8>, newline: bool) {
        match sign {
            Some(b'-') => self.at = self.source.len() - self.rest().trim_start().len(),
            None if newline && self.rest().starts_with('\n') => self.at += 1,
            _ => (),
        }
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest().find("#}") else { return self.fail("Missing end of comment tag") };
        let sign = self.rest()[..end].bytes().last().filter(|b| matches!(b, b'-' | b'+'));
        self.at += end + 2;
        self.close(sign, true);
        Ok(())
    }

    /// Where the text of `{% raw %}` starts, if this is one.
    fn raw_start(&self) -> Option<usize> {
        let rest = self.rest().trim_start().strip_prefix("raw")?.trim_start();
        let (rest, strip) = match rest.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let rest = rest.strip_prefix("%}")?;
        Some(self.source.len() - if strip { rest.trim_start() } else { rest }.len())
    }

    fn raw(&mut self, start: usize) -> Result<()> {
        self.at = start;
        let mut from = start;
        while let Some(open) = self.source[from..].find("{%").map(|at| from + at) {
            from = open + 2;
            let sign = self.source.as_bytes().get(from).copied().filter(|b| matches!(b, b'-' | b'+'));
            let name = self.source[from + usize::from(sign.is_some())..].trim_start();
            let Some(rest) = name.strip_prefix("endraw").map(str::trim_start) else { continue };
            let end_sign = rest.bytes().next().filter(|b| matches!(b, b'-' | b'+'));
            let Some(rest) = rest[usize::from(end_sign.is_some())..].strip_prefix("%}") else { continue };
            self.line_start = false;
            self.text(open, sign, true);
            self.at = self.source.len() - rest.len();
            self.close(end_sign, true);
            return Ok(());
        }
        self.fail("Missing end of raw directive")
    }

    /// Tokens up to `end`, which counts only outside of brackets.
    fn inside(&mut self, end: &'static str, closing: Token) -> Result<()> {
        let mut open: Vec<char> = Vec::new();
        loop {
            let rest = self.rest().trim_start();
            self.at = self.source.len() - rest.len();
            let Some(first) = rest.chars().next() else {
                return self.fail("unexpected end of template");
            };
            if open.is_empty() {
                let (sign, behind) = match first {
                    '-' => (Some(b'-'), &rest[1..]),
                    '+' if end == "%}" => (Some(b'+'), &rest[1..]),
                    _ => (None, rest),
                };
                if behind.starts_with(end) {
                    self.push(closing);
                    self.at = self.source.len() - behind.len() + 2;
                    self.close(sign, end == "%}");
                    return Ok(());
                }
            }
            if first.is_ascii_digit() {
                self.number()?;
            } else if first.is_alphanumeric() || first == '_' {
                let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                self.push(Token::Name(rest[..len].into()));
                self.at += len;
            } else if first == '\'' || first == '"' {
                self.string(first)?;
            } else {
                let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) else {
                    return self.fail(format!("unexpected char {first:?}"));
                };
                match *op {
                    "(" | "[" | "{" => open.push(first),
                    ")" | "]" | "}" => match (open.pop(), first) {
                        (Some('('), ')') | (Some('['), ']') | (Some('{'), '}') => (),
                        _ => return self.fail(format!("unexpected '{first}'")),
                    },
                    _ => (),
                }
                self.push(Token::Op(op));
                self.at += op.len();
            }
        }
    }

    fn number(&mut self) -> Result<()> {
        let bytes = self.rest().as_bytes();
        let run = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
        let after_dot = self.at > 0 && self.source.as_bytes()[self.at - 1] == b'.';
        let radix = match (bytes[0], bytes.get(1).map(u8::to_ascii_lowercase)) {
            (b'0', Some(b'x')) => 16,
            (b'0', Some(b'o')) => 8,
            (b'0', Some(b'b')) => 2,
            _ => 10,
        };
        if radix != 10 {
            let len = bytes[2..].iter().take_while(|b| (**b as char).is_digit(radix) || **b == b'_').count();
            let digits = self.rest()[2..2 + len].replace('_', "");
            let Ok(value) = i128::from_str_radix(&digits, radix) else { return self.fail("invalid number") };
            self.push(Token::Int(value));
            self.at += 2 + len;
            return Ok(());
        }
        let whole = run(0);
        let mut end = whole;
        if !after_dot {
            if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
                end += 1 + run(end + 1);
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                    end += 1 + sign + run(end + 1 + sign);
                }
            }
        }
        let text = self.rest()[..end].replace('_', "");
        let token = match end > whole {
            true => text.parse().ok().map(Token::Float),
            false => text.parse().ok().map(Token::Int),
        };
        let Some(token) = token else { return self.fail("invalid number") };
        self.push(token);
        self.at += end;
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<()> {
        let rest = &self.rest()[1..];
        let mut out = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.push(Token::Str(out.into()));
                self.at += at + 2;
                return Ok(());
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let Some((_, kind)) = chars.next() else { break };
            let mut digits = |count: usize, radix: u32, first: u32| {
                let mut value = first;
                for i in 0..count {
                    match chars.clone().next().and_then(|(_, c)| c.to_digit(radix)) {
                        Some(digit) => value = value * radix + digit,
                        None if radix == 8 && i > 0 => break,
                        None if radix == 8 => break,
                        None => return None,
                    }
                    chars.next();
                }
                char::from_u32(value)
            };
            let c = match kind {
                '\n' => continue,
                'n' => Some('\n'),
                't' => Some('\t'),
                'r' => Some('\r'),
                'a' => Some('\u{7}'),
                'b' => Some('\u{8}'),
                'f' => Some('\u{c}'),
                'v' => Some('\u{b}'),
                '\\' | '\'' | '"' => Some(kind),
                'x' => digits(2, 16, 0),
                'u' => digits(4, 16, 0),
                'U' => digits(8, 16, 0),
                '0'..='7' => digits(2, 8, kind as u32 - '0' as u32),
                other => {
                    out.push('\\');
                    Some(other)
                }
            };
            match c {
                Some(c) => out.push(c),
                None => return self.fail("an escape of a string is not valid"),
            }
        }
        self.fail("a string without end")
    }
}
