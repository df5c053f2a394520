//! A call that is a JSON object, character by character.

use crate::json::Json;
use crate::reply::call::Emit;
use crate::reply::format::Names;

/// What a value of the object is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueRole {
    Name,
    Id,
    Arguments,
    Other,
}

enum JsonCallState {
    /// Before `{`, or between calls of a list.
    Before,
    Key,
    InKey {
        escaped: bool,
    },
    Colon,
    Value,
    /// In a string value.
    Text {
        escaped: bool,
    },
    /// In any other value: brackets open, and whether in a string.
    Raw {
        depth: usize,
        quoted: bool,
        escaped: bool,
    },
    After,
}

/// How a character changed things.
#[derive(PartialEq, Eq)]
pub(super) enum FeedResult {
    More,
    /// A call ended.
    CallDone,
    /// The list, or the only call, ended.
    Done,
    /// This is no call.
    Wrong,
}

pub(super) struct JsonCall {
    names: Names,
    at: JsonCallState,
    role: ValueRole,
    /// The key or value in the making, with its quotes.
    text: String,
    list: bool,
    any: bool,
    name: Option<String>,
    arguments: bool,
}

impl JsonCall {
    pub fn new(names: &Names) -> JsonCall {
        JsonCall {
            names: names.clone(),
            at: JsonCallState::Before,
            role: ValueRole::Other,
            text: String::new(),
            list: false,
            any: false,
            name: None,
            arguments: false,
        }
    }

    /// Whether this is known to be a call: its function is, and what stands in no section has arguments, too.
    pub fn is_known(&self, bare: bool) -> bool {
        self.name.is_some() && (self.arguments || !bare)
    }

    /// The next call of a list.
    pub fn again(&mut self) {
        self.arguments = false;
    }

    pub fn feed(&mut self, c: char, emit: &mut Emit) -> FeedResult {
        let space = c.is_whitespace();
        match &mut self.at {
            JsonCallState::Before => match c {
                '{' => {
                    self.at = JsonCallState::Key;
                    self.name = None;
                    self.arguments = false;
                    self.any = true;
                }
                '[' if !self.list && !self.any => self.list = true,
                ']' if self.list => return FeedResult::Done,
                ',' if self.list && self.any => (),
                _ if space => (),
                _ => return FeedResult::Wrong,
            },
            JsonCallState::Key => match c {
                '"' => {
                    self.text.clear();
                    self.text.push('"');
                    self.at = JsonCallState::InKey { escaped: false };
                }
                '}' => return self.end(emit),
                ',' => (),
                _ if space => (),
                _ => return FeedResult::Wrong,
            },
            JsonCallState::InKey { escaped } => {
                self.text.push(c);
                match (c, *escaped) {
                    ('"', false) => {
                        let key = unquote(&self.text);
                        let is = |names: &[String]| names.contains(&key);
                        self.role = match () {
                            () if self.names.short => {
                                emit.start(&key, None);
                                self.name = Some(key);
                                ValueRole::Arguments
                            }
                            () if is(&self.names.name) => ValueRole::Name,
                            () if is(&self.names.arguments) => ValueRole::Arguments,
                            () if is(&self.names.id) => ValueRole::Id,
                            () => ValueRole::Other,
                        };
                        self.at = JsonCallState::Colon;
                    }
                    ('\\', false) => *escaped = true,
                    _ => *escaped = false,
                }
            }
            JsonCallState::Colon => match c {
                ':' => self.at = JsonCallState::Value,
                _ if space => (),
                _ => return FeedResult::Wrong,
            },
            JsonCallState::Value if space => (),
            JsonCallState::Value => {
                self.text.clear();
                self.arguments |= self.role == ValueRole::Arguments;
                match c {
                    '"' => {
                        self.text.push(c);
                        self.at = JsonCallState::Text { escaped: false };
                    }
                    '}' | ']' | ',' | ':' => return FeedResult::Wrong,
                    c => {
                        let depth = usize::from(c == '{' || c == '[');
                        self.at = JsonCallState::Raw { depth, quoted: false, escaped: false };
                        self.raw(c, emit);
                    }
                }
            }
            JsonCallState::Text { escaped } => {
                self.text.push(c);
                match (c, *escaped) {
                    ('"', false) => {
                        self.at = JsonCallState::After;
                        self.value(emit);
                    }
                    ('\\', false) => *escaped = true,
                    _ => *escaped = false,
                }
            }
            JsonCallState::Raw { depth, quoted, escaped } => {
                if *depth == 0 && matches!(c, ',' | '}') {
                    self.at = JsonCallState::After;
                    return self.feed(c, emit);
                }
                match (c, *quoted) {
                    (_, true) if *escaped => *escaped = false,
                    ('\\', true) => *escaped = true,
                    ('"', _) => *quoted = !*quoted,
                    ('{' | '[', false) => *depth += 1,
                    ('}' | ']', false) => {
                        *depth -= 1;
                        if *depth == 0 {
                            self.at = JsonCallState::After;
                        }
                    }
                    _ => (),
                }
                self.raw(c, emit);
            }
            JsonCallState::After => match c {
                ',' => self.at = JsonCallState::Key,
                '}' => return self.end(emit),
                _ if space => (),
                _ => return FeedResult::Wrong,
            },
        }
        FeedResult::More
    }

    /// A character of a value that is not a string: those of arguments are given at once.
    fn raw(&mut self, c: char, emit: &mut Emit) {
        if self.role == ValueRole::Arguments {
            emit.arguments(c.encode_utf8(&mut [0; 4]));
        }
    }

    /// A string value is whole.
    fn value(&mut self, emit: &mut Emit) {
        let text = std::mem::take(&mut self.text);
        match self.role {
            ValueRole::Name => {
                let name = unquote(&text);
                emit.start(&name, None);
                self.name = Some(name);
            }
            ValueRole::Id => emit.id(unquote(&text)),
            // Arguments as text in a string: the text is JSON itself.
            ValueRole::Arguments => {
                let inner = unquote(&text);
                let object = matches!(Json::parse(&inner), Ok(Json::Object(_)));
                emit.arguments(if object { &inner } else { &text });
            }
            ValueRole::Other => (),
        }
    }

    fn end(&mut self, emit: &mut Emit) -> FeedResult {
        if self.name.is_none() {
            return FeedResult::Wrong;
        }
        if !self.arguments {
            emit.arguments("{}");
        }
        emit.end(true);
        self.at = JsonCallState::Before;
        if self.list {
            FeedResult::CallDone
        } else {
            FeedResult::Done
        }
    }
}

/// The text of a JSON string; as it stands, if it is not one.
pub(super) fn unquote(text: &str) -> String {
    match Json::parse(text) {
        Ok(Json::Str(s)) => s,
        _ => text.trim_matches('"').to_string(),
    }
}
