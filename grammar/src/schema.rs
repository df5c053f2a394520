//! JSON schemas as generators write them, brought into what the compiler below takes.
//!
//! Annotations, unknown formats and keywords without effect go; references are read as RFC 6901 has them, and become definitions of one
//! list; objects that name properties and do not speak of others have no others. What cannot be held to is left out, and told.

mod bounds;
mod keywords;
mod patterns;
mod references;
mod siblings;

use crate::{Error, Result};
use keywords::KeywordRule;
use references::References;
use serde_json::{json, Map, Value};
use siblings::{is_any, is_nullable, nullable};

/// Names of types.
const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];
/// Keywords whose schemas are about the same value.
const SAME: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Whether a schema can be compiled.
pub type Tries<'a> = &'a dyn Fn(&Value) -> bool;

/// A schema that can be compiled, and what of the given one it does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// The schema.
    pub schema: Value,
    /// Keywords and why they do not hold, in words.
    pub dropped: Vec<String>,
}

/// Normalises a schema. With `tries`, patterns and numbers that cannot be compiled are left out, too. One that is `strict` is whoever
/// asks' own: what is wrong in it is refused, not left out.
///
/// # Errors
/// What is no schema, with its place.
pub fn normal(given: &Value, tries: Option<Tries>, strict: bool) -> Result<Normal> {
    let mut walk = Walk { whole: given, references: References::of(given), dropped: Vec::new(), tries, strict };
    let mut schema = walk.schema(given, "", false)?;
    let mut definitions = Map::new();
    while let Some((name, at, open)) = walk.references.next() {
        let target = walk.whole.pointer(&at).cloned().unwrap_or(Value::Bool(true));
        let made = walk.schema(&target, &at, open)?;
        definitions.insert(name, made);
    }
    if let (Value::Object(map), false) = (&mut schema, definitions.is_empty()) {
        map.insert("$defs".into(), definitions.into());
    }
    Ok(Normal { schema, dropped: walk.dropped })
}

struct Walk<'a> {
    whole: &'a Value,
    references: References,
    dropped: Vec<String>,
    tries: Option<Tries<'a>>,
    strict: bool,
}

impl Walk<'_> {
    fn drop(&mut self, at: &str, keyword: &str, why: &str) {
        let place = if at.is_empty() { "the schema" } else { at };
        let what = format!("{keyword} of {place} {why}");
        // A definition may be met twice: open, and closed.
        if !self.dropped.contains(&what) {
            self.dropped.push(what);
        }
    }

    /// Whether something alone can be compiled; without tries, all can.
    fn compiles(&self, schema: &Value) -> bool {
        self.tries.is_none_or(|tries| tries(schema))
    }

    /// A schema at a place; `open`: others say of the same object which properties it has.
    fn schema(&mut self, given: &Value, at: &str, open: bool) -> Result<Value> {
        let map = match given {
            Value::Bool(_) => return Ok(given.clone()),
            Value::Object(map) => map,
            other => {
                let kind = kind_of(other);
                let place = if at.is_empty() { "the schema" } else { at };
                return Err(Error::new(format!("{place}: expected a schema, which is an object, found {kind}")));
            }
        };
        if let Some(one) = self.only(map) {
            let made = self.schema(one, &format!("{at}/allOf/0"), open)?;
            return Ok(match made {
                Value::Object(made) if is_nullable(map) => nullable(made),
                made => made,
            });
        }
        if map.get("not").is_some_and(is_any) {
            return Ok(Value::Bool(false));
        }
        let mut out = Map::new();
        let types = self.types(map, at)?;
        let types = keywords::left(map, types.as_deref()).or(types);
        if types.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Value::Bool(false));
        }
        if let Some(types) = &types {
            out.insert("type".into(), if types.len() == 1 { types[0].into() } else { json!(types) });
        }
        let closes = !open && self.closes(map);
        // Beside properties of its own, or several that must all hold, others say no more than which of them.
        let inner_open = open || map.contains_key("properties") || map.contains_key("allOf") || closes;
        for (key, value) in map {
            if value.is_null() && key != "const" && key != "default" {
                continue;
            }
            self.keyword((key, value), at, (map, &mut out), inner_open)?;
        }
        self.arrays(map, at, &mut out)?;
        self.numbers(map, at, &mut out);
        self.dependents(map, &mut out);
        self.names(map, at, &mut out)?;
        if closes {
            self.close(map, &mut out);
        }
        self.counts(at, &mut out, open);
        patterns::seconds(&mut out);
        self.merge_siblings(map, at, &mut out);
        if is_nullable(map) {
            return Ok(nullable(out));
        }
        Ok(Value::Object(out))
    }

    fn types<'v>(&mut self, map: &'v Map<String, Value>, at: &str) -> Result<Option<Vec<&'v str>>> {
        let found: Vec<&str> = match map.get("type") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(other) => return Err(wrong(at, "type", "a string or a list of strings", other)),
        };
        // Some generators write so that a value may be anything.
        if found.is_empty() || found.contains(&"any") {
            return Ok(None);
        }
        match found.iter().find(|name| !TYPES.contains(name)) {
            Some(other) => {
                let expected = format!("one of {}", TYPES.join(", "));
                Err(Error::new(format!("type of {}: expected {expected}, found {other:?}", place(at))))
            }
            None => Ok(Some(found)),
        }
    }

    /// Takes one keyword over.
    fn keyword(
        &mut self,
        (key, value): (&String, &Value),
        at: &str,
        (map, out): (&Map<String, Value>, &mut Map<String, Value>),
        open: bool,
    ) -> Result<()> {
        let inner = |name: &str| format!("{at}/{}/{}", escape_pointer(key), escape_pointer(name));
        match KeywordRule::of(key) {
            KeywordRule::Schemas => {
                let Value::Object(all) = value else { return Err(wrong(at, key, "an object", value)) };
                let mut made = Map::new();
                for (name, one) in all {
                    if key == "patternProperties" && !self.compiles(&json!({"type": "string", "pattern": name})) {
                        self.drop(at, key, "is not held to: its pattern cannot be compiled");
                        continue;
                    }
                    made.insert(name.clone(), self.schema(one, &inner(name), false)?);
                }
                out.insert(key.clone(), made.into());
            }
            KeywordRule::Schema => {
                out.insert(key.clone(), self.schema(value, &format!("{at}/{key}"), false)?);
            }
            KeywordRule::Same => {
                let Value::Array(all) = value else { return Err(wrong(at, key, "a list", value)) };
                let mut made = Vec::new();
                for (i, one) in all.iter().enumerate() {
                    made.push(self.schema(one, &inner(&i.to_string()), open)?);
                }
                if key == "oneOf" && !keywords::disjoint(&made, all) {
                    self.drop(at, key, "is held to as anyOf: more than one of it may hold");
                }
                let both = key == "oneOf" && map.contains_key("anyOf");
                let made = if both { vec![json!({ "anyOf": made })] } else { made };
                let name = match (key.as_str(), both) {
                    (_, true) => "allOf",
                    ("oneOf", false) => "anyOf",
                    (other, false) => other,
                };
                if !made.is_empty() {
                    let mut all = out.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
                    all.extend(made);
                    out.insert(name.into(), all.into());
                }
            }
            KeywordRule::Reference => match value.as_str().and_then(|name| self.references.find(self.whole, name)) {
                Some(target) => {
                    // References into what is being read have nothing beside them.
                    let name = self.references.name(&target, open || map.contains_key("properties"));
                    out.insert("$ref".into(), format!("#/$defs/{name}").into());
                }
                None if self.strict && value.as_str().is_none_or(|name| name.starts_with('#')) => {
                    let what = format!("{key} of {}: {value} is nowhere in the schema", place(at));
                    return Err(Error::new(what));
                }
                None => self.drop(at, key, &format!("is not held to: {value} is nowhere in the schema")),
            },
            KeywordRule::Text => self.text(key, value, at, out)?,
            KeywordRule::Values => match value {
                Value::Array(all) if !all.is_empty() => drop(out.insert(key.clone(), value.clone())),
                Value::Array(_) => self.drop(at, key, "is not held to: it lists nothing"),
                other => return Err(wrong(at, key, "a list", other)),
            },
            KeywordRule::Constant => drop(out.insert(key.clone(), value.clone())),
            KeywordRule::Count => match count(value) {
                Some(n) => drop(out.insert(key.clone(), n.into())),
                None => self.drop(at, key, "is not held to: it is no count"),
            },
            KeywordRule::Required => {
                // An older draft has a truth value at the property.
                let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let names: Vec<Value> = names.iter().filter(|name| name.is_string()).cloned().collect();
                if !names.is_empty() {
                    out.insert(key.clone(), names.into());
                }
            }
            KeywordRule::Elsewhere | KeywordRule::Nothing => {}
            KeywordRule::Unheld => {
                let held = key == "not" && keywords::left(map, None).is_some();
                if !held && !keywords::says_nothing(key, value) {
                    self.drop(at, key, "is not held to");
                }
            }
        }
        Ok(())
    }

    /// Formats and patterns of strings.
    fn text(&mut self, key: &str, value: &Value, at: &str, out: &mut Map<String, Value>) -> Result<()> {
        let Some(text) = value.as_str() else { return Ok(()) };
        if key == "format" {
            // Others are annotations.
            if keywords::FORMATS.contains(&text) {
                out.insert(key.into(), value.clone());
            }
            return Ok(());
        }
        let known = patterns::as_known(text);
        match self.compiles(&json!({"type": "string", "pattern": known})) {
            true => drop(out.insert(key.into(), known.into())),
            false if self.strict && patterns::is_broken(text) => {
                return Err(Error::new(format!(
                    "{key} of {}: expected a regular expression, found {text:?}",
                    place(at)
                )));
            }
            false => self.drop(at, key, "is not held to: it cannot be compiled"),
        }
        Ok(())
    }

    /// Whether an object has the properties that are named and no others.
    fn closes(&self, map: &Map<String, Value>) -> bool {
        let says = ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"];
        let is_said = |map: &Map<String, Value>| {
            says.iter().any(|key| map.get(*key).is_some_and(|v| !v.is_null() && *v != json!({"type": "string"})))
        };
        let mut parts = vec![];
        let alone = self.parts(map, &mut parts, 0);
        let own = map.get("properties").is_some_and(Value::is_object);
        let all_of = map.contains_key("allOf");
        alone
            && (own || all_of)
            && !is_said(map)
            && !parts.iter().any(|part| is_said(part))
            && (own || parts.iter().any(|part| part.contains_key("properties")))
    }

    /// The schemas that speak of the same value as this one. False if there are too many to follow.
    fn parts<'v>(&'v self, map: &'v Map<String, Value>, parts: &mut Vec<&'v Map<String, Value>>, depth: usize) -> bool {
        if depth > 8 || parts.len() > 64 {
            return false;
        }
        let lists = SAME.iter().filter_map(|key| map.get(*key)?.as_array()).flatten();
        let target = map.get("$ref").and_then(Value::as_str).and_then(|name| self.references.find(self.whole, name));
        let target = target.and_then(|at| self.whole.pointer(&at));
        for part in lists.chain(target).filter_map(Value::as_object) {
            parts.push(part);
            if !self.parts(part, parts, depth + 1) {
                return false;
            }
        }
        true
    }

    /// Names all properties that any of its parts knows, and says that there are no others.
    fn close(&self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        let mut parts = vec![];
        self.parts(map, &mut parts, 0);
        let mut known = match out.shift_remove("properties") {
            Some(Value::Object(known)) => known,
            _ => Map::new(),
        };
        let names = parts.iter().filter_map(|part| part.get("properties")?.as_object()).flat_map(Map::keys);
        let must = parts.iter().chain([&map]).filter_map(|part| part.get("required")?.as_array()).flatten();
        for name in names.map(String::as_str).chain(must.filter_map(Value::as_str)) {
            known.entry(name).or_insert(Value::Bool(true));
        }
        out.insert("properties".into(), known.into());
        out.insert("additionalProperties".into(), false.into());
    }
}

fn wrong(at: &str, key: &str, expected: &str, found: &Value) -> Error {
    Error::new(format!("{key} of {}: expected {expected}, found {}", place(at), kind_of(found)))
}

fn place(at: &str) -> &str {
    if at.is_empty() {
        "the schema"
    } else {
        at
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A count: a whole number that is not negative.
fn count(value: &Value) -> Option<u64> {
    let whole = |f: f64| (f.fract() == 0.0 && (0.0..1e15).contains(&f)).then_some(f as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// A name within a JSON pointer.
fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests;
