//! Calls whose arguments stand one by one in marks; they become JSON on the way.

use std::collections::HashMap;

use crate::json::{quote, Json};
use crate::reply::call::Emit;
use crate::reply::format::CallNotation;
use crate::reply::{until, MarkSearch};

/// What a request's tools say of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A string, whatever it looks like.
    Text,
    /// A string, but `null` is null.
    TextOrNull,
    /// No string.
    Other,
    Unknown,
}

/// Types of arguments by function and name.
pub(super) struct Types(HashMap<(String, String), Type>);

impl Types {
    pub fn new(tools: Option<&Json>) -> Types {
        let mut types = HashMap::new();
        for tool in tools.and_then(Json::as_array).unwrap_or_default() {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name").and_then(Json::as_str).unwrap_or_default();
            let schema = function.get("parameters").or_else(|| function.get("input_schema"));
            let properties = schema.and_then(|s| s.get("properties")).and_then(Json::as_object);
            for (key, property) in properties.unwrap_or_default() {
                types.insert((name.to_string(), key.clone()), type_of(property));
            }
        }
        Types(types)
    }

    pub fn of(&self, function: &str, key: &str) -> Type {
        self.0.get(&(function.to_string(), key.to_string())).copied().unwrap_or(Type::Unknown)
    }
}

fn type_of(property: &Json) -> Type {
    match property.get("type") {
        Some(Json::Str(s)) if s == "string" => Type::Text,
        Some(Json::Str(_)) => Type::Other,
        Some(Json::Array(all)) => match all.iter().any(|t| t.as_str() == Some("string")) {
            true if all.len() == 1 => Type::Text,
            true => Type::TextOrNull,
            false => Type::Other,
        },
        _ => match property.get("enum").and_then(Json::as_array) {
            Some(all) if all.iter().all(|v| v.as_str().is_some()) => Type::Text,
            _ => Type::Unknown,
        },
    }
}

/// A whole value's JSON.
pub(super) fn value(text: &str, of: Type) -> String {
    let trimmed = text.trim();
    let known = match trimmed {
        "True" => Some("true"),
        "False" => Some("false"),
        "None" => Some("null"),
        _ => None,
    };
    match of {
        Type::TextOrNull if trimmed == "null" || trimmed == "None" => return "null".to_string(),
        Type::Text | Type::TextOrNull => (),
        _ if known.is_some() => return known.unwrap_or_default().to_string(),
        _ if Json::parse(trimmed).is_ok() => return trimmed.to_string(),
        _ => (),
    }
    let mut out = String::new();
    quote(text, false, &mut out);
    out
}

/// Text of a JSON string without its quotes.
pub(super) fn escape_json(text: &str) -> String {
    let mut out = String::new();
    quote(text, false, &mut out);
    out[1..out.len() - 1].to_string()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParamsState {
    Open,
    Name,
    Between,
    Key,
    Value,
}

/// `open` name `end` (`param` key `key_end` value `param_close`)* `close`
pub(super) struct Params {
    marks: [String; 6],
    lines: bool,
    at: ParamsState,
    function: String,
    text: String,
    of: Type,
    count: usize,
    /// Whether anything of the present value was given.
    begun: bool,
}

impl Params {
    pub fn new(kind: &CallNotation) -> Params {
        let (marks, lines) = match kind.clone() {
            CallNotation::Params { open, end, param, key_end, param_close, close, lines } => {
                ([open, end, param, key_end, param_close, close], lines)
            }
            _ => (Default::default(), false),
        };
        let (function, text) = (String::new(), String::new());
        Params { marks, lines, at: ParamsState::Open, function, text, of: Type::Unknown, count: 0, begun: false }
    }

    /// Goes on; true when the call has ended.
    pub fn run(&mut self, pending: &mut String, types: &Types, emit: &mut Emit) -> bool {
        let [open, end, param, key_end, param_close, close] = &self.marks;
        loop {
            match self.at {
                ParamsState::Open => {
                    pending.drain(..open.len().min(pending.len()));
                    self.at = ParamsState::Name;
                }
                ParamsState::Name => {
                    if !take(pending, end, &mut self.text) {
                        return false;
                    }
                    let head = std::mem::take(&mut self.text);
                    self.function = head.split_once('"').map_or(head.as_str(), |(name, _)| name).trim().to_string();
                    emit.start(&self.function, None);
                    self.at = ParamsState::Between;
                }
                ParamsState::Between => match until(pending, &[param, close]) {
                    MarkSearch::Mark(_, 0) => self.at = ParamsState::Key,
                    MarkSearch::Mark(..) => {
                        emit.arguments(if self.count == 0 { "{}" } else { "}" });
                        emit.end(true);
                        return true;
                    }
                    MarkSearch::Text(_) => return false,
                },
                ParamsState::Key => {
                    if !take(pending, key_end, &mut self.text) {
                        return false;
                    }
                    let head = std::mem::take(&mut self.text);
                    let (key, attributes) = head.split_once('"').unwrap_or((&head, ""));
                    let key = key.trim();
                    self.of = match () {
                        () if ["string=\"true", "type=\"string"].iter().any(|a| attributes.contains(a)) => Type::Text,
                        () if ["string=\"false", "type=\""].iter().any(|a| attributes.contains(a)) => Type::Other,
                        () => types.of(&self.function, key),
                    };
                    emit.arguments(if self.count == 0 { "{\"" } else { ", \"" });
                    emit.arguments(&escape_json(key));
                    emit.arguments("\": ");
                    self.count += 1;
                    self.begun = false;
                    self.at = ParamsState::Value;
                }
                ParamsState::Value => {
                    let found = until(pending, &[param_close]);
                    let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
                    let over = matches!(found, MarkSearch::Mark(..));
                    self.text.push_str(text);
                    // What may be in a wrapper is given when it is whole.
                    let wrapped = param_close == "</param>";
                    if self.of == Type::Text && !wrapped {
                        piece(&mut self.text, &mut self.begun, self.lines, over, emit);
                    } else if over {
                        let text = std::mem::take(&mut self.text);
                        let text = if self.lines { without_lines(&text) } else { &text };
                        let inner = text.strip_prefix("<![CDATA[").and_then(|t| t.strip_suffix("]]>"));
                        let text = inner.filter(|_| wrapped).unwrap_or(text);
                        emit.arguments(&value(text, self.of));
                    }
                    if !over {
                        return false;
                    }
                    self.at = ParamsState::Between;
                }
            }
        }
    }
}

fn without_lines(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text)
}

/// Gives what is sure of a string value.
fn piece(text: &mut String, begun: &mut bool, lines: bool, over: bool, emit: &mut Emit) {
    if !*begun {
        if text.is_empty() && !over {
            return;
        }
        emit.arguments("\"");
        *begun = true;
        if lines && text.starts_with('\n') {
            text.remove(0);
        }
    }
    let held = lines && text.ends_with('\n');
    let end = text.len() - usize::from(held);
    emit.arguments(&escape_json(&text[..end]));
    text.drain(..end);
    if over {
        text.clear();
        emit.arguments("\"");
    }
}

/// Takes text up to a mark; false if it did not come yet.
pub(super) fn take(pending: &mut String, mark: &str, text: &mut String) -> bool {
    let found = until(pending, &[mark]);
    let (MarkSearch::Mark(more, _) | MarkSearch::Text(more)) = &found;
    text.push_str(more);
    matches!(found, MarkSearch::Mark(..))
}
