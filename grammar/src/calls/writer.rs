//! Rules under way, and the marks, texts and JSON values in them.

use crate::{source::bound_whitespace, Vocabulary};
use serde_json::{json, Value};
use std::fmt::Write;

/// An expression of a text itself.
pub fn regex(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
        out
    })
}

/// Lark under way.
pub struct LarkWriter<'a> {
    /// Tokens.
    pub vocabulary: &'a Vocabulary,
    /// Function names with their arguments' schemas.
    pub tools: Vec<(String, Value)>,
    /// Rules so far, a line each.
    pub out: String,
    rules: usize,
    /// Lengths of special tokens' texts, longest first.
    lengths: Vec<usize>,
}

impl<'a> LarkWriter<'a> {
    /// A writer of calls of `tools`, without any rule yet.
    pub fn new(vocabulary: &'a Vocabulary, tools: Vec<(String, Value)>) -> LarkWriter<'a> {
        let mut lengths: Vec<usize> = vocabulary.specials().map(|(text, _)| text.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        LarkWriter { vocabulary, tools, out: String::new(), rules: 0, lengths }
    }

    /// A name that no rule has.
    pub fn name(&mut self) -> String {
        self.rules += 1;
        format!("c{}", self.rules)
    }

    /// Writes the rule of a name.
    pub fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.out, "{name}: {body}");
    }

    /// A new rule's name.
    pub fn rule(&mut self, body: &str) -> String {
        let name = self.name();
        self.define(&name, body);
        name
    }

    /// A new terminal's name.
    fn terminal(&mut self, body: &str) -> String {
        let name = self.name().to_uppercase();
        self.define(&name, body);
        name
    }

    /// Where a special token stands in a text first, its length and id.
    fn first_special(&self, text: &str) -> Option<(usize, usize, u32)> {
        text.char_indices().find_map(|(at, _)| {
            self.lengths.iter().find_map(|len| Some((at, *len, self.vocabulary.special(text.get(at..at + len)?)?)))
        })
    }

    /// A text with the special tokens in it; empty: nothing.
    pub fn mark(&self, text: &str) -> String {
        let mut items: Vec<String> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (at, len, id) = match self.first_special(rest) {
                Some((at, len, id)) => (at, len, Some(id)),
                None => (rest.len(), 0, None),
            };
            if at > 0 {
                items.push(format!("/{}/", regex(&rest[..at])));
            }
            items.extend(id.map(|id| format!("<[{id}]>")));
            rest = &rest[at + len..];
        }
        items.join(" ")
    }

    /// Any text up to a mark, which is not empty, and the mark; `pattern` is an expression of the text, if it is not any.
    pub fn text(&mut self, pattern: Option<&str>, close: &str) -> String {
        let any = "(?s:.*)";
        let without = format!("~/{any}{}{any}/", regex(close));
        match (pattern, self.first_special(close)) {
            (None, None) => {
                let name = self.name();
                let _ = writeln!(self.out, "{name}[lazy]: /{any}{}/", regex(close));
                name
            }
            (Some(pattern), None) => {
                let text = self.terminal(&format!("/{pattern}/ & {without}"));
                self.terminal(&format!("{text} /{}/", regex(close)))
            }
            // A special token ends the text before it, which must not spell the mark.
            (pattern, Some((at, ..))) => {
                let (plain, rest) = close.split_at(at);
                let text = self.terminal(&format!("/{}{}/ & {without}", pattern.unwrap_or(any), regex(plain)));
                format!("{text} {}", self.mark(rest))
            }
        }
    }

    /// Special tokens that are neither ends nor what calls begin with.
    pub fn other_specials(&self, open: &str) -> String {
        let v = self.vocabulary;
        let ids = v.specials().filter(|(text, id)| !open.contains(text) && !v.ends.contains(id));
        let mut ids: Vec<u32> = ids.map(|(_, id)| id).collect();
        ids.sort_unstable();
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        if ids.is_empty() {
            String::new()
        } else {
            format!("<[{}]>", ids.join(","))
        }
    }

    /// JSON of a schema.
    pub fn value(&mut self, schema: &Value) -> String {
        self.rule(&format!("%json {}", bound_whitespace(schema.clone())))
    }

    /// JSON of a part of a schema, whose references are to the whole.
    pub fn part(&mut self, part: &Value, whole: &Value) -> String {
        let mut value = part.clone();
        for defs in ["$defs", "definitions"] {
            if let (Some(found), true) = (whole.get(defs), value.is_object()) {
                value[defs] = found.clone();
            }
        }
        self.value(&value)
    }

    /// One of the functions, as `one` writes its call.
    pub fn each_tool(&mut self, mut one: impl FnMut(&mut Self, &str, &Value) -> String) -> String {
        let mut all = Vec::new();
        for (name, schema) in self.tools.clone() {
            let body = one(self, &name, &schema);
            all.push(self.rule(&body));
        }
        self.rule(&all.join(" | "))
    }
}

/// Names of an object's properties with their schemas and whether they must be there, in the schema's order.
pub fn properties(schema: &Value) -> Vec<(&String, &Value, bool)> {
    let required = schema.get("required").and_then(Value::as_array);
    let must = |key: &String| required.is_some_and(|r| r.iter().any(|k| k == key));
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().map(|(key, value)| (key, value, must(key))).collect()
}

/// Whether a value can be nothing but a string.
pub fn is_text(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(all)) => all.len() == 1 && all[0] == "string",
        Some(kind) => kind == "string",
        None => match (schema.get("enum").and_then(Value::as_array), schema.get("const")) {
            (Some(all), _) => all.iter().all(Value::is_string),
            (None, value) => value.is_some_and(Value::is_string),
        },
    }
}

/// The strings that a schema lists, if it does.
pub fn schema_enum(schema: &Value) -> Option<Vec<&str>> {
    match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => Some(value.as_str().into_iter().collect()),
        (None, Some(all)) => Some(all.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// An expression of a string's length or pattern, if the schema says more than that it is one.
pub fn pattern(schema: &Value) -> Option<String> {
    let length = |key: &str| schema.get(key).and_then(Value::as_u64);
    match schema.get("pattern").and_then(Value::as_str) {
        Some(pattern) => {
            let (front, body) = pattern.strip_prefix('^').map_or(("(?s:.*)", pattern), |rest| ("", rest));
            let escaped = body.ends_with("\\$");
            let (body, back) = body.strip_suffix('$').filter(|_| !escaped).map_or((body, "(?s:.*)"), |rest| (rest, ""));
            Some(format!("{front}({}){back}", body.replace("\\/", "/").replace('/', "\\/")))
        }
        None => match (length("minLength").unwrap_or(0), length("maxLength")) {
            (0, None) => None,
            (least, None) => Some(format!("(?s:.{{{least},}})")),
            (least, Some(most)) => Some(format!("(?s:.{{{least},{most}}})")),
        },
    }
}

/// The call's text as JSON: an object of the names of its keys.
pub fn call_schema(name: &str, schema: &Value, keys: Option<[&str; 2]>) -> Value {
    let fields = match keys {
        None => json!({ name: schema }),
        Some(keys) => json!({ keys[0]: {"const": name}, keys[1]: schema }),
    };
    let required: Vec<&String> = fields.as_object().map(|f| f.keys().collect()).unwrap_or_default();
    // References are relative to the whole.
    let mut whole =
        json!({"type": "object", "properties": fields, "required": required, "additionalProperties": false});
    for defs in ["$defs", "definitions"] {
        if let Some(found) = schema.get(defs) {
            whole[defs] = found.clone();
        }
    }
    whole
}
