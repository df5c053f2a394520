//! A call that is a JSON object, character by character.

use crate::json::Json;
use crate::reply::call::Emit;
use crate::reply::format::Names;

/// What a value of the object is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Name,
    Id,
    Arguments,
    Other,
}

enum At {
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
pub(super) enum Fed {
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
    at: At,
    role: Role,
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
            at: At::Before,
            role: Role::Other,
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

    pub fn feed(&mut self, c: char, emit: &mut Emit) -> Fed {
        let space = c.is_whitespace();
        match &mut self.at {
            At::Before => match c {
                '{' => {
                    self.at = At::Key;
                    self.name = None;
                    self.arguments = false;
                    self.any = true;
                }
                '[' if !self.list && !self.any => self.list = true,
                ']' if self.list => return Fed::Done,
                ',' if self.list && self.any => (),
                _ if space => (),
                _ => return Fed::Wrong,
            },
            At::Key => match c {
                '"' => {
                    self.text.clear();
                    self.text.push('"');
                    self.at = At::InKey { escaped: false };
                }
                '}' => return self.end(emit),
                ',' => (),
                _ if space => (),
                _ => return Fed::Wrong,
            },
            At::InKey { escaped } => {
                self.text.push(c);
                match (c, *escaped) {
                    ('"', false) => {
                        let key = unquoted(&self.text);
                        let is = |names: &[String]| names.contains(&key);
                        self.role = match () {
                            () if self.names.short => {
                                emit.start(&key, None);
                                self.name = Some(key);
                                Role::Arguments
                            }
                            () if is(&self.names.name) => Role::Name,
                            () if is(&self.names.arguments) => Role::Arguments,
                            () if is(&self.names.id) => Role::Id,
                            () => Role::Other,
                        };
                        self.at = At::Colon;
                    }
                    ('\\', false) => *escaped = true,
                    _ => *escaped = false,
                }
            }
            At::Colon => match c {
                ':' => self.at = At::Value,
                _ if space => (),
                _ => return Fed::Wrong,
            },
            At::Value if space => (),
            At::Value => {
                self.text.clear();
                self.arguments |= self.role == Role::Arguments;
                match c {
                    '"' => {
                        self.text.push(c);
                        self.at = At::Text { escaped: false };
                    }
                    '}' | ']' | ',' | ':' => return Fed::Wrong,
                    c => {
                        let depth = usize::from(c == '{' || c == '[');
                        self.at = At::Raw { depth, quoted: false, escaped: false };
                        self.raw(c, emit);
                    }
                }
            }
            At::Text { escaped } => {
                self.text.push(c);
                match (c, *escaped) {
                    ('"', false) => {
                        self.at = At::After;
                        self.value(emit);
                    }
                    ('\\', false) => *escaped = true,
                    _ => *escaped = false,
                }
            }
            At::Raw { depth, quoted, escaped } => {
                if *depth == 0 && matches!(c, ',' | '}') {
                    self.at = At::After;
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
                            self.at = At::After;
                        }
                    }
                    _ => (),
                }
                self.raw(c, emit);
            }
            At::After => match c {
                ',' => self.at = At::Key,
                '}' => return self.end(emit),
                _ if space => (),
                _ => return Fed::Wrong,
            },
        }
        Fed::More
    }

    /// A character of a value that is not a string: those of arguments are given at once.
    fn raw(&mut self, c: char, emit: &mut Emit) {
        if self.role == Role::Arguments {
            emit.arguments(c.encode_utf8(&mut [0; 4]));
        }
    }

    /// A string value is whole.
    fn value(&mut self, emit: &mut Emit) {
        let text = std::mem::take(&mut self.text);
        match self.role {
            Role::Name => {
                let name = unquoted(&text);
                emit.start(&name, None);
                self.name = Some(name);
            }
            Role::Id => emit.id(unquoted(&text)),
            // Arguments as text in a string: the text is JSON itself.
            Role::Arguments => {
                let inner = unquoted(&text);
                let object = matches!(Json::parse(&inner), Ok(Json::Object(_)));
                emit.arguments(if object { &inner } else { &text });
            }
            Role::Other => (),
        }
    }

    fn end(&mut self, emit: &mut Emit) -> Fed {
        if self.name.is_none() {
            return Fed::Wrong;
        }
        if !self.arguments {
            emit.arguments("{}");
        }
        emit.end(true);
        self.at = At::Before;
        if self.list {
            Fed::CallDone
        } else {
            Fed::Done
        }
    }
}

/// The text of a JSON string; as it stands, if it is not one.
pub(super) fn unquoted(text: &str) -> String {
    match Json::parse(text) {
        Ok(Json::Str(s)) => s,
        _ => text.trim_matches('"').to_string(),
    }
}
