//! Grammars of replies that call tools: free text up to a call's mark, then a known function's name and arguments of its schema.
//!
//! Which ways of writing calls are constrained ([`CallNotation`]):
//!
//! | kind | |
//! |---|---|
//! | `Json`, `Named` | arguments are JSON of the function's schema |
//! | `Params`, `Pairs` | a text for each property in the schema's order: strings free up to their mark, all else JSON of its schema |
//! | `Braces`, `Tags`, `Python` | values of the schema in that notation |
//! | gpt-oss's channels | JSON of the schema in a message to the function |
//! | `Code` | not: it is any text |
//!
//! In a format without a constraint, [`Vocabulary::calls`] gives none. Reasoning is not seen by these grammars: who follows a reply
//! leaves out what stands between its marks, and the mark behind it.

mod harmony;
mod notation;
mod writer;

use crate::{source, Error, GrammarSource, Result, Vocabulary};
use notation::{Notation, Values};
use pumex_chat::reply::{CallNotation, Calls, Format, Names, Section};
use serde_json::{json, Value};
use std::fmt::Write;
use writer::{call_schema, is_text, pattern, properties, regex, schema_enum, LarkWriter};

/// Which calls a reply may or must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model calls functions or answers, whichever it likes.
    #[default]
    Auto,
    /// None: the model is not told of any function.
    None,
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
/// Formats in which a call has a number.
const NUMBERED: &[&str] = &["kimi-k3"];
/// Formats that are read as JSON, too, but that no template asks for so.
const NOT_JSON: &[&str] = &["lfm2"];

/// What a request's tools are: names and schemas of their arguments.
fn functions(tools: &Value, choice: &CallConstraint) -> Result<Vec<(String, Value)>> {
    let wrong = || Error::new("tools: expected a list of functions with names");
    let mut known = Vec::new();
    for tool in tools.as_array().ok_or_else(wrong)? {
        let function = tool.get("function").unwrap_or(tool);
        let name = function.get("name").and_then(Value::as_str).ok_or_else(wrong)?;
        let given = function.get("parameters").filter(|p| !p.is_null() && **p != json!({}));
        // A function without parameters has none.
        let schema = given.cloned().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        known.push((name.to_string(), source::check_limits(schema)?));
    }
    if let Some(allowed) = choice.allowed {
        known.retain(|(name, _)| allowed.contains(name));
    }
    if let ToolChoice::Function(chosen) = choice.calls {
        known.retain(|(name, _)| name == chosen);
        if known.is_empty() {
            return Err(Error::new(format!("function {chosen:.100} is not among the tools")));
        }
    }
    Ok(known)
}

/// What is asked of a reply's calls.
#[derive(Clone, Copy, Debug)]
pub struct CallConstraint<'a> {
    /// Which there may or must be.
    pub calls: &'a ToolChoice,
    /// Names of the functions that may be called; none: all.
    pub allowed: Option<&'a [String]>,
    /// Whether there may be several.
    pub parallel: bool,
    /// Whether the reply may begin with reasoning: not where that is over already.
    pub may_reason: bool,
}

impl Vocabulary {
    /// Arguments of a function, of a schema that can be held to: those of an object.
    fn arguments(&self, name: &str, given: &Value, dropped: &mut Vec<String>) -> Value {
        let found = self.holdable(&root_schema(given), false);
        match found {
            Ok(normal) => {
                dropped.extend(normal.dropped.into_iter().map(|what| format!("function {name:?}: {what}")));
                inline_reference(normal.schema)
            }
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().next().unwrap_or_default();
                dropped.push(format!("function {name:?}: its arguments are not held to their schema: {why}"));
                json!({"type": "object"})
            }
        }
    }

    /// The grammar of a reply in a format that may call `tools`, as in a request, and what of their schemas is not held to; none where
    /// the format has none (see the module), and where the choice is that there are no calls.
    ///
    /// # Errors
    /// Tools that are no list of functions; a function that is chosen but not there.
    pub fn calls(
        &self,
        format: &Format,
        tools: &Value,
        choice: CallConstraint,
    ) -> Result<Option<(GrammarSource, Vec<String>)>> {
        let mut known = functions(tools, &choice)?;
        if known.is_empty() || *choice.calls == ToolChoice::None {
            return Ok(None);
        }
        let dropped = source::on_stack("tools", || {
            let mut dropped = Vec::new();
            known.iter_mut().for_each(|(name, schema)| *schema = self.arguments(name, schema, &mut dropped));
            Ok(dropped)
        })?;
        Ok(self.reply(format, known, choice).map(|source| (source, dropped)))
    }

    fn reply(&self, format: &Format, known: Vec<(String, Value)>, choice: CallConstraint) -> Option<GrammarSource> {
        let must = *choice.calls != ToolChoice::Auto;
        // A function that is named is called once.
        let parallel = choice.parallel && !matches!(choice.calls, ToolChoice::Function(_));
        let mut w = LarkWriter::new(self, known);
        let (sections, bare) = match &format.calls {
            Calls::None => return None,
            Calls::Harmony => {
                let start = harmony::reply(&mut w, choice.calls);
                return Some(GrammarSource::Lark(format!("start: {start}\n{}", w.out)));
            }
            Calls::Sections { sections, bare } => (sections, bare),
        };
        if let Some(names) = bare {
            let call = json_call(&mut w, &format.name, names, false);
            let free = if must { "" } else { " | FREE?" };
            return Some(GrammarSource::Lark(format!("start: {call}{free}\nFREE: /[^{{\\s](?s:.*)/\n{}", w.out)));
        }
        let found = sections.iter().find_map(|s| Some((s, section_body(&mut w, &format.name, s, parallel)?)));
        let (section, body) = found?;
        let open = w.mark(&section.open);
        let close = w.mark(&section.close);
        let one = w.rule(&format!("{body} {close}"));
        let again = match parallel && !section.close.is_empty() {
            true => format!("(SPACE? {open} {one})*"),
            false => String::new(),
        };
        // What a model of its own accord may begin with: its reasoning.
        let thought = format.reasoning.as_ref().filter(|_| choice.may_reason);
        let thought = thought.map(|r| format!("(SPACE? {})? ", w.mark(&r.open))).unwrap_or_default();
        let start = if must {
            format!("{thought}SPACE? {open} {one} {again}")
        } else {
            // Text up to the first mark; other special tokens may stand in it.
            let others = w.other_specials(&section.open);
            let _ = writeln!(w.out, "TEXT: /(?s:.+)/ & ~/(?s:.*){}(?s:.*)/", regex(&section.open));
            let lead = match open.starts_with('<') {
                true => format!("TEXT? {open}"),
                false => w.text(None, &section.open),
            };
            let piece = if others.is_empty() { String::new() } else { format!("(TEXT? {others})* ") };
            format!("{piece}( TEXT? | {lead} {one} {again} SPACE? )")
        };
        Some(GrammarSource::Lark(format!("start: {start}\nSPACE: /[ \\n]{{1,4}}/\n{}", w.out)))
    }

    /// The grammar of a whole reply of which `source` is the answer, and what of it is not held to: the same, where no marks stand
    /// around answers.
    ///
    /// # Errors
    /// A grammar that cannot be read.
    pub fn answer(&self, format: &Format, source: &GrammarSource) -> Result<(GrammarSource, Vec<String>)> {
        let (source, dropped) = self.split_unenforced(source)?;
        if format.calls != Calls::Harmony {
            return Ok((source, dropped));
        }
        let mut w = LarkWriter::new(self, Vec::new());
        let thought = harmony::write_reasoning(&mut w);
        let head = w.mark("<|channel|>final<|message|>");
        let lark = format!(
            "start: {thought}{{0,{}}} {head} answer\n{}{}",
            harmony::MOST,
            w.out,
            source.as_rule("answer", self)?
        );
        Ok((GrammarSource::Lark(lark), dropped))
    }
}

/// A schema of arguments: those of a function are an object's.
fn root_schema(given: &Value) -> Value {
    match given {
        Value::Object(map) => {
            let mut map = map.clone();
            map.insert("type".into(), "object".into());
            map.into()
        }
        _ => json!({"type": "object"}),
    }
}

/// The schema with its properties in sight, where its whole is a reference: most ways of writing calls go by them.
fn inline_reference(schema: Value) -> Value {
    let has_own = ["properties", "anyOf", "allOf"].iter().any(|key| schema.get(*key).is_some());
    let target = schema["$ref"].as_str().and_then(|name| schema.pointer(name.strip_prefix('#')?));
    match target.filter(|target| target.is_object() && !has_own) {
        None => schema,
        Some(target) => {
            let mut whole = target.clone();
            whole["$defs"] = schema["$defs"].clone();
            whole
        }
    }
}

/// Calls of a section, if their notation has a grammar.
fn section_body(w: &mut LarkWriter, format: &str, section: &Section, parallel: bool) -> Option<String> {
    // Of a section's kinds the first that has a grammar; the parser takes any of them.
    section.kinds.iter().find_map(|kind| body(w, format, kind, (section, parallel)))
}

fn body(
    w: &mut LarkWriter,
    format: &str,
    kind: &CallNotation,
    (section, parallel): (&Section, bool),
) -> Option<String> {
    let closed = !section.close.is_empty();
    Some(match kind {
        CallNotation::Json(_) if NOT_JSON.contains(&format) => return None,
        CallNotation::Json(names) => {
            let one = json_call(w, format, names, LISTS.contains(&format) && parallel);
            format!("SPACE? {one}{}", if closed { " SPACE?" } else { "" })
        }
        CallNotation::Named { open, skip, end, close, qualified, .. } => {
            let calls = w.each_tool(|w, name, schema| {
                let skipped = if skip.is_empty() { String::new() } else { format!("function{skip}") };
                let head = match qualified {
                    true => format!("{} /[0-9]{{1,2}}/ {}", w.mark(&format!("{open}functions.{name}:")), w.mark(end)),
                    false => w.mark(&format!("{open}{skipped}{name}{end}")),
                };
                format!("{head} {} {}", w.value(schema), w.mark(close))
            });
            many(&calls, parallel && closed && !open.is_empty())
        }
        CallNotation::Params { open, end, param, key_end, param_close, close, lines } => {
            let line = if *lines { "\n" } else { "" };
            let calls = w.each_tool(|w, name, schema| {
                let head = match NUMBERED.contains(&format) {
                    true => {
                        format!("{} /\" index=\"[0-9]{{1,2}}\"/ {}", w.mark(&format!("{open}{name}")), w.mark(end))
                    }
                    false => w.mark(&format!("{open}{name}{end}")),
                };
                let key = |key: &str, value: &Value| {
                    let text = is_text(value);
                    let attributes = match format {
                        "kimi-k3" => format!("\" type=\"{}\"", kind_of(value)),
                        "deepseek-dsml" => format!("\" string=\"{text}\""),
                        _ => String::new(),
                    };
                    [format!("{param}{key}{attributes}{key_end}"), param_close.clone()]
                };
                let body = params(w, schema, line, &key);
                format!("{head} SPACE? {body} {}", w.mark(close))
            });
            format!("SPACE? {}", many(&format!("{calls} SPACE?"), parallel && closed && !open.is_empty()))
        }
        CallNotation::Pairs => w.each_tool(|w, name, schema| {
            let key =
                |key: &str, _: &Value| [format!("<arg_key>{key}</arg_key>\n<arg_value>"), "</arg_value>".to_string()];
            let body = params(w, schema, "", &key);
            format!("{} {body}", w.mark(&format!("{name}\n")))
        }),
        CallNotation::Braces { quote } => w.each_tool(|w, name, schema| {
            let arguments = Values::new(w, Notation::Braces(quote), schema).arguments();
            format!("{} {arguments} \"}}\"", w.mark(&format!("{name}{{")))
        }),
        CallNotation::Python => {
            let calls = w.each_tool(|w, name, schema| {
                let arguments = Values::new(w, Notation::Python, schema).arguments();
                format!("{} {arguments} \")\"", w.mark(&format!("{name}(")))
            });
            let again = if parallel { format!("(/, ?/ {calls})*") } else { String::new() };
            format!("SPACE? \"[\" {calls} {again} \"]\" SPACE?")
        }
        CallNotation::Tags { prefix } => {
            let calls = w.each_tool(|w, name, schema| {
                let arguments = Values::new(w, Notation::Tags(prefix), schema).arguments();
                let [open, close] =
                    [w.mark(&format!("{prefix}<invoke name=\"{name}\">")), w.mark(&format!("{prefix}</invoke>"))];
                format!("{open} SPACE? {arguments} {close} SPACE?")
            });
            format!("SPACE? {}", many(&calls, parallel))
        }
        CallNotation::Code => return None,
    })
}

fn many(calls: &str, repeated: bool) -> String {
    match repeated {
        true => format!("(SPACE? {calls})+ SPACE?"),
        false => calls.to_string(),
    }
}

/// A schema's type in one word.
fn kind_of(schema: &Value) -> &str {
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => "number",
        Some(kind) => kind,
        None if is_text(schema) => "string",
        None => "object",
    }
}

fn json_call(w: &mut LarkWriter, format: &str, names: &Names, list: bool) -> String {
    let keys = KEYS.iter().find(|(name, _)| *name == format).map_or(["name", "arguments"], |(_, keys)| *keys);
    let keys = (!names.short).then_some(keys);
    let mut all = Vec::new();
    for (name, schema) in w.tools.clone() {
        let schema = call_schema(&name, &schema, keys);
        all.push(match list {
            true => w.value(&json!({"type": "array", "items": schema, "minItems": 1, "maxItems": 16})),
            false => w.value(&schema),
        });
    }
    let one = w.rule(&all.join(" | "));
    match !list && LISTS.contains(&format) {
        true => format!("\"[\" {one} \"]\""),
        false => one,
    }
}

/// Properties in the schema's order, each between the marks of its key.
fn params(w: &mut LarkWriter, schema: &Value, line: &str, marks: &dyn Fn(&str, &Value) -> [String; 2]) -> String {
    let mut out = Vec::new();
    for (key, value, must) in properties(schema) {
        let [open, close] = marks(key, value);
        let open = w.mark(&format!("{open}{line}"));
        let close = format!("{line}{close}");
        let body = match schema_enum(value).filter(|_| is_text(value)) {
            Some(all) => {
                let all: Vec<String> = all.iter().map(|t| format!("/{}/", regex(t))).collect();
                format!("( {} ) {}", all.join(" | "), w.mark(&close))
            }
            None if is_text(value) => w.text(pattern(value).as_deref(), &close),
            None => format!("{} {}", w.part(value, schema), w.mark(&close)),
        };
        let one = w.rule(&format!("{open} {body} SPACE?"));
        out.push(if must { one } else { format!("{one}?") });
    }
    out.join(" ")
}
