//! What becomes of each keyword.

use super::{bounds, patterns, wrong, Walk};
use crate::Result;
use serde_json::{json, Map, Value};

/// Formats that texts are held to; all others are annotations.
pub(super) const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
/// How a keyword is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordRule {
    /// A schema for each name.
    Schemas,
    /// A schema.
    Schema,
    /// Schemas of the same value.
    Same,
    Reference,
    /// Applies to strings.
    Text,
    /// A list of values.
    Values,
    Constant,
    Count,
    Required,
    /// By a function that sees several of them.
    Elsewhere,
    /// It is left out, and told.
    Unheld,
    /// It says nothing of values.
    Nothing,
}

impl KeywordRule {
    pub fn of(key: &str) -> KeywordRule {
        match key {
            "properties" | "patternProperties" => KeywordRule::Schemas,
            "additionalProperties" => KeywordRule::Schema,
            "allOf" | "anyOf" | "oneOf" => KeywordRule::Same,
            "$ref" | "$dynamicRef" | "$recursiveRef" => KeywordRule::Reference,
            "format" | "pattern" => KeywordRule::Text,
            "enum" => KeywordRule::Values,
            "const" | "x-guidance" => KeywordRule::Constant,
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                KeywordRule::Count
            }
            "required" => KeywordRule::Required,
            "type" | "items" | "prefixItems" | "additionalItems" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" | "multipleOf" | "dependentRequired" | "propertyNames" | "nullable" => {
                KeywordRule::Elsewhere
            }
            "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "minContains"
            | "maxContains"
            | "dependentSchemas"
            | "dependencies"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "uniqueItems" => KeywordRule::Unheld,
            _ => KeywordRule::Nothing,
        }
    }
}

/// Whether a keyword that cannot be held to says nothing with that value.
pub(super) fn says_nothing(key: &str, value: &Value) -> bool {
    match key {
        "uniqueItems" => *value == Value::Bool(false),
        "unevaluatedProperties" | "unevaluatedItems" | "if" | "then" | "else" => {
            *value == Value::Bool(true) || *value == json!({})
        }
        "not" => *value == Value::Bool(false),
        "dependentSchemas" | "dependencies" => *value == json!({}),
        _ => false,
    }
}

/// The types that are left where `not` is about types alone, of those given or of all; none where that cannot be said by types.
pub(super) fn left<'v>(map: &'v Map<String, Value>, types: Option<&[&'v str]>) -> Option<Vec<&'v str>> {
    let not = map.get("not")?.as_object()?;
    if !not.keys().all(|key| key == "type" || KeywordRule::of(key) == KeywordRule::Nothing) {
        return None;
    }
    let taken: Vec<&str> = match not.get("type")? {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => vec![one.as_str()?],
    };
    let all: Vec<&str> = super::TYPES.iter().copied().filter(|kind| *kind != "integer").collect();
    let own = match map.get("type") {
        Some(Value::Array(own)) if types.is_none() => own.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(own)) if types.is_none() => vec![own.as_str()],
        _ => types.map_or(all, <[&str]>::to_vec),
    };
    let is_taken = |kind: &str| taken.contains(&kind) || kind == "integer" && taken.contains(&"number");
    let left: Vec<&str> = own.into_iter().filter(|kind| !is_taken(kind)).collect();
    (!taken.contains(&"integer") || !left.contains(&"number")).then_some(left)
}

/// Whether no value that is made of one of these schemas is of another, as far as their types, constants and one property that tells them
/// apart say. `given` are these as they were given.
pub(super) fn disjoint(all: &[Value], given: &[Value]) -> bool {
    let shut = |i: usize| given.get(i).is_some_and(|schema| schema["additionalProperties"] == false);
    let pairs = |i: usize| (i + 1..all.len()).map(move |j| (i, j));
    (0..all.len()).flat_map(pairs).all(|(i, j)| differ((&all[i], shut(i)), (&all[j], shut(j))))
}

/// Whether no value fits both of two schemas, each with whether it itself says that it has no others than it names.
fn differ((a, a_shut): (&Value, bool), (b, b_shut): (&Value, bool)) -> bool {
    let kinds = |v: &Value| match &v["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(|k| Some(k.as_str()?.to_string())).collect(),
        _ => Vec::new(),
    };
    let plain = |kind: &String| if kind == "integer" { "number".to_string() } else { kind.clone() };
    let (ka, kb) = (kinds(a), kinds(b));
    if !ka.is_empty() && !kb.is_empty() && !ka.iter().map(plain).any(|k| kb.iter().map(plain).any(|other| other == k)) {
        return true;
    }
    let values = |v: &Value| match (v.get("const"), v.get("enum")) {
        (Some(one), _) => vec![one.clone()],
        (None, Some(Value::Array(all))) => all.clone(),
        _ => Vec::new(),
    };
    let (va, vb) = (values(a), values(b));
    if !va.is_empty() && !vb.is_empty() && !va.iter().any(|v| vb.contains(v)) {
        return true;
    }
    let must = |v: &Value| v["required"].as_array().cloned().unwrap_or_default();
    let of = |v: &Value, name: &str| v["properties"].get(name).cloned();
    let shared = must(a).into_iter().filter(|name| must(b).contains(name));
    let tells = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        matches!((of(a, name), of(b, name)), (Some(a), Some(b)) if differ((&a, false), (&b, false)))
    };
    if shared.into_iter().any(|name| tells(&name)) {
        return true;
    }
    // What is made has no others than are named; the other must have one of those.
    let lacks = |v: &Value, other: &Value| {
        v["additionalProperties"] == false
            && must(other).iter().any(|name| name.as_str().is_some_and(|name| of(v, name).is_none()))
    };
    let (first, second) = (lacks(a, b), lacks(b, a));
    // Without such words of its own, a schema is open to what is made of the other.
    match (first, second) {
        (true, true) => true,
        (true, false) => a_shut,
        (false, true) => b_shut,
        (false, false) => false,
    }
}

impl Walk<'_> {
    /// Items of lists, by the words of all drafts.
    pub(super) fn arrays(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) -> Result<()> {
        let some = |key: &str| map.get(key).filter(|v| !v.is_null());
        let (mut first, mut rest) = (some("prefixItems"), some("items"));
        let mut places = ("prefixItems", "items");
        if rest.is_some_and(Value::is_array) {
            (first, rest) = (rest, some("additionalItems"));
            places = ("items", "additionalItems");
        }
        if let Some(first) = first {
            let Value::Array(all) = first else { return Err(wrong(at, "prefixItems", "a list", first)) };
            let mut made = Vec::new();
            for (i, one) in all.iter().enumerate() {
                made.push(self.schema(one, &format!("{at}/{}/{i}", places.0), false)?);
            }
            out.insert("prefixItems".into(), made.into());
        }
        if let Some(rest) = rest {
            out.insert("items".into(), self.schema(rest, &format!("{at}/{}", places.1), false)?);
        }
        Ok(())
    }

    /// What names of properties are, where no property is named itself.
    pub(super) fn names(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) -> Result<()> {
        const KEY: &str = "propertyNames";
        let Some(names) = map.get(KEY).filter(|v| !v.is_null()) else { return Ok(()) };
        let says: Vec<&String> = names.as_object().into_iter().flat_map(Map::keys).collect();
        let plain = says.iter().all(|key| *key == "type" || super::KeywordRule::of(key) == KeywordRule::Nothing);
        if plain && *names != Value::Bool(false) {
            return Ok(());
        }
        let free = !map.contains_key("properties") && !map.contains_key("patternProperties");
        let value = out.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let lengths = bounds::lengths(names);
        let pattern = names["pattern"].as_str().map(patterns::as_known).or(lengths);
        let pattern = pattern.filter(|p| self.compiles(&json!({"type": "string", "pattern": p})));
        match (names["enum"].as_array(), pattern) {
            (Some(all), _) if free => {
                let each = all.iter().filter_map(|name| Some((name.as_str()?.to_string(), value.clone())));
                out.insert("properties".into(), each.collect::<Map<_, _>>().into());
            }
            (None, Some(pattern)) if free => {
                out.insert("patternProperties".into(), json!({ pattern: value }));
                let lengths = names.get("pattern").is_some() && bounds::lengths(names).is_some();
                if lengths || says.iter().any(|key| *key == "format") {
                    self.drop(at, KEY, "is held to by its pattern alone");
                }
            }
            _ => {
                self.drop(at, KEY, "is not held to");
                return Ok(());
            }
        }
        out.insert("additionalProperties".into(), false.into());
        Ok(())
    }
}
