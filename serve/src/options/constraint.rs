//! What answers are within, by the names of several servers' fields.

use crate::engine::Constraint;
use crate::errors::Result;
use crate::fields::Fields;
use serde_json::Value;

/// Bytes of a grammar.
const GRAMMAR: usize = 64 << 10;
/// Texts of which an answer is one.
const CHOICES: usize = 1024;

/// The field that says it, and what it says; at most one does.
pub(super) fn read(fields: &Fields) -> Result<Option<(&'static str, Constraint)>> {
    let mut found: Vec<(&'static str, Constraint)> = Vec::new();
    for name in ["grammar", "ebnf", "guided_grammar"] {
        found.extend(grammar(fields, name)?.map(|c| (name, c)));
    }
    for name in ["json_schema", "guided_json"] {
        found.extend(schema(fields, name)?.map(|s| (name, Constraint::Schema(s))));
    }
    for name in ["regex", "guided_regex"] {
        found.extend(regex(fields, name)?.map(|c| (name, c)));
    }
    found.extend(choice(fields, "guided_choice")?.map(|c| ("guided_choice", c)));
    found.extend(parse_structured_outputs(fields)?.map(|c| ("structured_outputs", c)));
    let format = match fields.object("response_format")? {
        Some(format) => response_format(&format)?,
        None => None,
    };
    // Of any object a schema says more.
    let said = format == Some(Constraint::JsonObject) && matches!(found[..], [(_, Constraint::Schema(_))]);
    found.extend(format.filter(|_| !said).map(|c| ("response_format", c)));
    match &found[..] {
        [(first, _), (second, _), ..] => {
            Err(fields.refuse(first, format!("either {first} or {second} may be given, not both")))
        }
        _ => Ok(found.pop()),
    }
}

fn grammar(fields: &Fields, name: &str) -> Result<Option<Constraint>> {
    match fields.text(name)?.filter(|g| !g.is_empty()) {
        Some(text) if text.len() > GRAMMAR => {
            Err(fields.refuse(name, format!("expected at most {GRAMMAR} bytes, found {}", text.len())))
        }
        text => Ok(text.map(|text| Constraint::Grammar(text.to_string()))),
    }
}

fn regex(fields: &Fields, name: &str) -> Result<Option<Constraint>> {
    Ok(fields.text(name)?.filter(|r| !r.is_empty()).map(|r| Constraint::Regex(r.to_string())))
}

/// One of some texts.
fn choice(fields: &Fields, name: &str) -> Result<Option<Constraint>> {
    if fields.value(name).is_none() {
        return Ok(None);
    }
    let texts = fields.texts(name)?;
    if texts.is_empty() || texts.len() > CHOICES {
        return Err(fields.refuse(name, format!("expected from 1 to {CHOICES} texts, found {}", texts.len())));
    }
    // Strings of a grammar are written as JSON's are.
    let all: Vec<String> = texts.into_iter().map(|text| Value::String(text).to_string()).collect();
    Ok(Some(Constraint::Grammar(format!("root ::= {}", all.join(" | ")))))
}

/// vLLM's `structured_outputs`: one of its fields.
fn parse_structured_outputs(fields: &Fields) -> Result<Option<Constraint>> {
    let Some(given) = fields.object("structured_outputs")? else { return Ok(None) };
    if given.value("structural_tag").is_some() {
        return Err(given.refuse("structural_tag", "is not supported; tools and tool_choice are"));
    }
    let any = given.boolean("json_object")?.unwrap_or(false);
    let all = [
        ("json", schema(&given, "json")?.map(Constraint::Schema)),
        ("regex", regex(&given, "regex")?),
        ("choice", choice(&given, "choice")?),
        ("grammar", grammar(&given, "grammar")?),
        ("json_object", any.then_some(Constraint::JsonObject)),
    ];
    let mut found = all.into_iter().filter_map(|(name, c)| Some((name, c?)));
    match (found.next(), found.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(given.refuse(first, format!("either {first} or {second} may be given, not both")))
        }
        (first, _) => Ok(first.map(|(_, c)| c)),
    }
}

/// A schema: an object or a truth value, or the text of one.
pub(crate) fn schema(fields: &Fields, name: &str) -> Result<Option<Value>> {
    match fields.value(name) {
        None => Ok(None),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => Ok(Some(schema.clone())),
        Some(Value::String(text)) => match crate::fields::parse(text.as_bytes()) {
            Ok(schema @ (Value::Object(_) | Value::Bool(_))) => Ok(Some(schema)),
            _ => Err(fields.refuse(name, "expected a JSON schema, or the text of one")),
        },
        Some(other) => Err(fields.wrong(name, "a JSON schema", other)),
    }
}

/// OpenAI's `response_format`; Responses' `text.format` has the schema beside the type.
pub(crate) fn response_format(format: &Fields) -> Result<Option<Constraint>> {
    Ok(match format.require_text("type")? {
        "text" => None,
        "json_object" => Some(schema(format, "schema")?.map_or(Constraint::JsonObject, Constraint::Schema)),
        "json_schema" => {
            let inner = format.object("json_schema")?;
            if inner.is_none() && format.value("schema").is_none() && format.pointer("").contains("response_format") {
                return Err(format.refuse("json_schema", "this field is required"));
            }
            let holder = inner.as_ref().unwrap_or(format);
            let found = schema(holder, "schema")?.ok_or_else(|| holder.refuse("schema", "this field is required"))?;
            Some(Constraint::Schema(found))
        }
        other => {
            let text = format!("expected one of text, json_object, json_schema, found {other:?}");
            return Err(format.refuse("type", text));
        }
    })
}
