//! Calls as Python writes them: `[name(key="value", n=3)]`. An argument is given when it is whole.

use crate::json::{quote, Json};
use crate::reply::call::Emit;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PythonState {
    Before,
    Name,
    Arguments,
}

pub(super) struct Python {
    at: PythonState,
    text: String,
    depth: usize,
    quoted: Option<char>,
    escaped: bool,
    count: usize,
}

impl Python {
    pub fn new() -> Python {
        Python { at: PythonState::Before, text: String::new(), depth: 0, quoted: None, escaped: false, count: 0 }
    }

    /// Goes on; true when the list has ended.
    pub fn run(&mut self, pending: &mut String, emit: &mut Emit) -> bool {
        let mut used = 0;
        let mut done = false;
        for c in pending.chars() {
            used += c.len_utf8();
            if self.feed(c, emit) {
                done = true;
                break;
            }
        }
        pending.drain(..used);
        done
    }

    fn feed(&mut self, c: char, emit: &mut Emit) -> bool {
        match self.at {
            PythonState::Before => match c {
                ']' => return true,
                '[' | ',' => (),
                c if c.is_whitespace() => (),
                c => {
                    self.text.push(c);
                    self.at = PythonState::Name;
                }
            },
            PythonState::Name if c == '(' => {
                emit.start(std::mem::take(&mut self.text).trim(), None);
                self.count = 0;
                self.at = PythonState::Arguments;
            }
            PythonState::Name if c == ']' => return true,
            PythonState::Name => self.text.push(c),
            PythonState::Arguments => self.argument(c, emit),
        }
        false
    }

    fn argument(&mut self, c: char, emit: &mut Emit) {
        let was = std::mem::take(&mut self.escaped);
        match (c, self.quoted) {
            ('\\', Some(_)) if !was => self.escaped = true,
            (c, Some(mark)) if c == mark && !was => self.quoted = None,
            (_, Some(_)) => (),
            ('"' | '\'', None) => self.quoted = Some(c),
            ('(' | '[' | '{', None) => self.depth += 1,
            (')', None) if self.depth == 0 => {
                self.whole(emit);
                emit.arguments(if self.count == 0 { "{}" } else { "}" });
                emit.end(true);
                self.at = PythonState::Before;
                return;
            }
            (')' | ']' | '}', None) => self.depth = self.depth.saturating_sub(1),
            (',', None) if self.depth == 0 => {
                self.whole(emit);
                return;
            }
            _ => (),
        }
        self.text.push(c);
    }

    fn whole(&mut self, emit: &mut Emit) {
        let text = std::mem::take(&mut self.text);
        if text.trim().is_empty() {
            return;
        }
        emit.arguments(if self.count == 0 { "{" } else { ", " });
        emit.arguments(&argument(&text, self.count));
        self.count += 1;
    }

    /// The reply ended: what was begun is not whole.
    pub fn cut_off(&mut self, emit: &mut Emit) {
        if self.at == PythonState::Arguments && self.count > 0 {
            self.text.clear();
            emit.arguments("");
        }
    }
}

/// `key=value` as an entry of a JSON object; a value without key gets its number.
fn argument(text: &str, number: usize) -> String {
    let named = text.split_once('=').filter(|(key, _)| key.trim().chars().all(|c| c.is_alphanumeric() || c == '_'));
    let (key, value) = named.map_or((number.to_string(), text), |(key, value)| (key.trim().to_string(), value));
    let mut out = String::new();
    quote(&key, false, &mut out);
    out.push_str(": ");
    out.push_str(&literal(value.trim()).dump());
    out
}

/// `tool.call(key="value")` as name and arguments.
pub(super) fn method_call(text: &str) -> Option<(String, String)> {
    let (name, rest) = text.split_once(".call(")?;
    let known = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let inner = rest.strip_suffix(')').filter(|_| known)?;
    let mut events = Vec::new();
    let mut state = Default::default();
    let mut emit = Emit { events: &mut events, state: &mut state };
    Python::new().run(&mut format!("[{name}({inner})]"), &mut emit);
    let text = |e: &super::Event| match e {
        super::Event::CallArguments { delta, .. } => Some(delta.clone()),
        _ => None,
    };
    Some((name.to_string(), events.iter().filter_map(text).collect()))
}

/// A Python literal; what is none is a string.
fn literal(text: &str) -> Json {
    let mut reader = PythonReader { text, at: 0 };
    match reader.value(0) {
        Some(value) if text[reader.at..].trim().is_empty() => value,
        _ => Json::Str(text.to_string()),
    }
}

struct PythonReader<'a> {
    text: &'a str,
    at: usize,
}

impl PythonReader<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn skip(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += if is { c.len_utf8() } else { 0 };
        is
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > 100 {
            return None;
        }
        match self.peek()? {
            '[' | '(' => {
                let close = if self.skip('[') {
                    ']'
                } else {
                    self.skip('(');
                    ')'
                };
                let mut items = Vec::new();
                while !self.skip(close) {
                    items.push(self.value(depth + 1)?);
                    if !self.skip(',') && self.peek()? != close {
                        return None;
                    }
                }
                Some(Json::Array(items))
            }
            '{' => {
                self.skip('{');
                let mut entries = Vec::new();
                while !self.skip('}') {
                    let key = match self.value(depth + 1)? {
                        Json::Str(key) => key,
                        other => other.dump(),
                    };
                    if !self.skip(':') {
                        return None;
                    }
                    entries.push((key, self.value(depth + 1)?));
                    if !self.skip(',') && self.peek()? != '}' {
                        return None;
                    }
                }
                Some(Json::Object(entries))
            }
            mark @ ('"' | '\'') => self.string(mark),
            _ => {
                let rest = &self.text[self.at..];
                let len = rest.find([',', ']', '}', ')', ':']).unwrap_or(rest.len());
                let word = rest[..len].trim();
                self.at += len;
                match word {
                    "True" | "true" => Some(Json::Bool(true)),
                    "False" | "false" => Some(Json::Bool(false)),
                    "None" | "null" => Some(Json::Null),
                    word => Json::parse(word).ok().filter(|v| matches!(v, Json::Int(_) | Json::Float(_))),
                }
            }
        }
    }

    fn string(&mut self, mark: char) -> Option<Json> {
        self.skip(mark);
        let mut out = String::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                c if c == mark => {
                    self.at += i + 1;
                    return Some(Json::Str(out));
                }
                '\\' => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    c @ ('\\' | '"' | '\'') => out.push(c),
                    c => out.extend(['\\', c]),
                },
                c => out.push(c),
            }
        }
        None
    }
}
