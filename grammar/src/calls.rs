//! Grammars of replies that call tools: free text up to a call's mark, then a known function's name and arguments of its schema.
//!
//! Which ways of writing calls are constrained ([`Kind`]), and which are not:
//!
//! | kind | |
//! |---|---|
//! | `Json`, `Named` | arguments are JSON of the function's schema |
//! | `Params`, `Pairs` | a text for each property in the schema's order: strings free up to their mark, all else JSON of its schema |
//! | `Params` with attributes behind the key (DSML, Kimi K3) | no: what the attributes say is the model's |
//! | `Braces`, `Tags`, `Python`, `Code` | no: values are not JSON, and their notation has no grammar here yet |
//! | gpt-oss's channels | no: calls stand in messages among others of their own headers |
//!
//! In a format without a constraint, [`Vocabulary::calls`] gives none. Content before calls may be anything, reasoning too.

use crate::{source::spaced, Error, Result, Source, Vocabulary};
use pumex_chat::reply::{Calls, Format, Kind, Names, Section};
use serde_json::{json, Value};
use std::fmt::Write;

/// Which calls a reply may or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// As the model likes.
    Auto,
    /// At least one, of any function.
    Required,
    /// One of this function.
    Function(String),
}

/// Formats whose JSON calls stand in a list, and names of keys other than `name` and `arguments`.
const LISTS: &[&str] = &["mistral", "nemotron-v2", "granite", "command-r7b", "command-r", "apertus"];
const KEYS: &[(&str, [&str; 2])] = &[
    ("llama3", ["name", "parameters"]),
    ("command-r7b", ["tool_name", "parameters"]),
    ("command-r", ["tool_name", "parameters"]),
];

struct Writer<'a> {
    vocabulary: &'a Vocabulary,
    format: &'a str,
    /// Function names with their arguments' schemas.
    tools: Vec<(String, Value)>,
    out: String,
    rules: usize,
}

impl Vocabulary {
    /// The grammar of a reply in a format that may call `tools`, as in a request; none where the format has none (see the module).
    ///
    /// # Errors
    /// Tools that are no list of functions; a function that is chosen but not there.
    pub fn calls(&self, format: &Format, tools: &Value, choice: &Choice, parallel: bool) -> Result<Option<Source>> {
        let wrong = || Error::new("tools: expected a list of functions with names");
        let mut known = Vec::new();
        for tool in tools.as_array().ok_or_else(wrong)? {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name").and_then(Value::as_str).ok_or_else(wrong)?;
            let schema = function.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
            known.push((name.to_string(), schema));
        }
        if let Choice::Function(chosen) = choice {
            known.retain(|(name, _)| name == chosen);
            if known.is_empty() {
                return Err(Error::new(format!("tool_choice: function {chosen:.100} is not among the tools")));
            }
        }
        let Calls::Sections { sections, bare } = &format.calls else { return Ok(None) };
        if known.is_empty() {
            return Ok(None);
        }
        let mut w = Writer { vocabulary: self, format: &format.name, tools: known, out: String::new(), rules: 0 };
        let must = *choice != Choice::Auto;
        if let Some(names) = bare {
            let call = w.json(names, false);
            let free = if must { "" } else { " | FREE?" };
            return Ok(Some(Source::Lark(format!("start: {call}{free}\nFREE: /[^{{\\s](?s:.*)/\n{}", w.out))));
        }
        let Some((section, body)) = sections.iter().find_map(|s| Some((s, w.section(s, parallel)?))) else {
            return Ok(None);
        };
        let more = if parallel && !section.close.is_empty() { "*" } else { "" };
        let open = w.mark(&section.open);
        let close = w.mark(&section.close);
        let one = w.rule(&format!("{body} {close}"));
        let again = if more.is_empty() { String::new() } else { format!("(SPACE? {open} {one})*") };
        let start = if must {
            format!("SPACE? {open} {one} {again}")
        } else {
            // Text up to the first mark; other special tokens may stand in it.
            let others = w.other_specials(&section.open);
            let has_open = format!("/(?s:.*){}(?s:.*)/", regex(&section.open));
            let lead = match self.special(&section.open) {
                Some(_) => {
                    let _ = writeln!(w.out, "TEXT: /(?s:.+)/");
                    format!("TEXT? {open}")
                }
                None => {
                    let _ = writeln!(w.out, "TEXT: /(?s:.+)/ & ~{has_open}");
                    let _ = writeln!(w.out, "lead[lazy]: /(?s:.*){}/", regex(&section.open));
                    "lead".to_string()
                }
            };
            let piece = if others.is_empty() { String::new() } else { format!("(TEXT? {others})* ") };
            format!("{piece}( TEXT? | {lead} {one} {again} SPACE? )")
        };
        Ok(Some(Source::Lark(format!("start: {start}\nSPACE: /[ \\n]{{1,4}}/\n{}", w.out))))
    }
}

/// An expression of a text itself.
fn regex(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
        out
    })
}

impl Writer<'_> {
    fn rule(&mut self, body: &str) -> String {
        self.rules += 1;
        let _ = writeln!(self.out, "c{}: {body}", self.rules);
        format!("c{}", self.rules)
    }

    /// A text with the special tokens in it.
    fn mark(&self, text: &str) -> String {
        let mut items: Vec<String> = Vec::new();
        let (mut plain, mut at) = (String::new(), 0);
        while at < text.len() {
            let ends = (at + 1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
            let found = ends.filter_map(|end| Some((end, self.vocabulary.special(&text[at..end])?))).next();
            if let Some((end, id)) = found {
                if !plain.is_empty() {
                    items.push(format!("/{}/", regex(&std::mem::take(&mut plain))));
                }
                items.push(format!("<[{id}]>"));
                at = end;
            } else if let Some(c) = text[at..].chars().next() {
                plain.push(c);
                at += c.len_utf8();
            }
        }
        if !plain.is_empty() {
            items.push(format!("/{}/", regex(&plain)));
        }
        items.join(" ")
    }

    /// Special tokens that are neither ends nor what calls begin with.
    fn other_specials(&self, open: &str) -> String {
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

    fn value(&mut self, schema: &Value) -> String {
        self.rule(&format!("%json {}", spaced(schema.clone())))
    }

    fn section(&mut self, section: &Section, parallel: bool) -> Option<String> {
        // Of a section's kinds the first that has a grammar; the parser takes any of them.
        let close = !section.close.is_empty();
        section.kinds.iter().find_map(|kind| match kind {
            Kind::Json(names) => {
                let one = self.json(names, LISTS.contains(&self.format) && parallel);
                Some(format!("SPACE? {one}{}", if close { " SPACE?" } else { "" }))
            }
            Kind::Named { open, skip, end, close, qualified, .. } => {
                let calls = self.each_tool(|w, name, schema| {
                    let skipped = if skip.is_empty() { String::new() } else { format!("function{skip}") };
                    let head = match qualified {
                        true => {
                            format!("{} /[0-9]{{1,2}}/ {}", w.mark(&format!("{open}functions.{name}:")), w.mark(end))
                        }
                        false => w.mark(&format!("{open}{skipped}{name}{end}")),
                    };
                    Some(format!("{head} {} {}", w.value(schema), w.mark(close)))
                })?;
                let repeated = parallel && close.len() + open.len() > 1 && !section.close.is_empty();
                Some(if repeated { format!("(SPACE? {calls})+ SPACE?") } else { calls })
            }
            Kind::Params { open, end, param, key_end, param_close, close, lines } if key_end != ">" || *lines => {
                if key_end.starts_with("<|") {
                    return None;
                }
                let calls = self.each_tool(|w, name, schema| {
                    let head = w.mark(&format!("{open}{name}{end}"));
                    let key = |key: &str| [format!("{param}{key}{key_end}"), param_close.clone()];
                    let body = w.properties(schema, if *lines { "\n" } else { "" }, &key)?;
                    Some(format!("{head} SPACE? {body} {}", w.mark(close)))
                })?;
                Some(format!("SPACE? {calls} SPACE?"))
            }
            Kind::Pairs => self.each_tool(|w, name, schema| {
                let key = |key: &str| [format!("<arg_key>{key}</arg_key>\n<arg_value>"), "</arg_value>".to_string()];
                let body = w.properties(schema, "", &key)?;
                Some(format!("{} {body}", w.mark(&format!("{name}\n"))))
            }),
            _ => None,
        })
    }

    fn each_tool(&mut self, mut one: impl FnMut(&mut Self, &str, &Value) -> Option<String>) -> Option<String> {
        let mut all = Vec::new();
        for (name, schema) in self.tools.clone() {
            let body = one(self, &name, &schema)?;
            all.push(self.rule(&body));
        }
        Some(self.rule(&all.join(" | ")))
    }

    fn json(&mut self, names: &Names, list: bool) -> String {
        let keys = KEYS.iter().find(|(name, _)| *name == self.format).map_or(["name", "arguments"], |(_, keys)| *keys);
        let of = |(name, schema): &(String, Value)| {
            let fields = match names.short {
                true => json!({ name: schema }),
                false => json!({ keys[0]: {"const": name}, keys[1]: schema }),
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
        };
        let schemas: Vec<Value> = self.tools.iter().map(of).collect();
        let all: Vec<String> = schemas
            .iter()
            .map(|schema| match list {
                true => json!({"type": "array", "items": schema, "minItems": 1, "maxItems": 16}),
                false => schema.clone(),
            })
            .map(|schema| self.value(&schema))
            .collect();
        let wrapped = !list && LISTS.contains(&self.format);
        let one = self.rule(&all.join(" | "));
        if wrapped {
            format!("\"[\" {one} \"]\"")
        } else {
            one
        }
    }

    /// Properties in the schema's order, each between the marks of its key; none for an object without named properties.
    fn properties(&mut self, schema: &Value, line: &str, marks: &dyn Fn(&str) -> [String; 2]) -> Option<String> {
        let empty = serde_json::Map::new();
        let fields = schema.get("properties").map_or(Some(&empty), Value::as_object)?;
        let required = schema.get("required").and_then(Value::as_array);
        let mut out = Vec::new();
        for (key, value) in fields {
            let [open, close] = marks(key);
            let [open, end] = [self.mark(&format!("{open}{line}")), self.mark(&close)];
            let text = value.get("type") == Some(&json!("string"));
            let body = match value.get("enum").and_then(Value::as_array).filter(|_| text) {
                Some(all) => {
                    let all: Vec<String> =
                        all.iter().filter_map(Value::as_str).map(|t| format!("/{}/", regex(t))).collect();
                    format!("( {} ) {} {end}", all.join(" | "), self.mark(line))
                }
                None if text && self.vocabulary.special(&close).is_none() => {
                    self.rules += 1;
                    let _ = writeln!(self.out, "c{}[lazy]: /(?s:.*){}/", self.rules, regex(&format!("{line}{close}")));
                    format!("c{}", self.rules)
                }
                None if text => format!("/(?s:.*)/ {end}"),
                None => {
                    let mut value = value.clone();
                    for defs in ["$defs", "definitions"] {
                        if let (Some(found), true) = (schema.get(defs), value.is_object()) {
                            value[defs] = found.clone();
                        }
                    }
                    format!("{} {} {end}", self.value(&value), self.mark(line))
                }
            };
            let one = self.rule(&format!("{open} {body} SPACE?"));
            let must = required.is_some_and(|r| r.iter().any(|k| k == key));
            out.push(if must { one } else { format!("{one}?") });
        }
        Some(out.join(" "))
    }
}
