//! What becomes of each keyword.

use super::{wrong, Walk};
use crate::Result;
use serde_json::{json, Map, Value};

/// Formats that texts are held to; all others are annotations.
pub(super) const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
/// Bounds that are further from 0 bound nothing that anybody writes, and make no automaton.
const FAR: f64 = 1e30;

/// How a keyword is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// A schema for each name.
    Schemas,
    /// A schema.
    Schema,
    /// Schemas of the same value.
    Same,
    Reference,
    /// Of strings.
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

impl Kept {
    pub fn of(key: &str) -> Kept {
        match key {
            "properties" | "patternProperties" => Kept::Schemas,
            "additionalProperties" => Kept::Schema,
            "allOf" | "anyOf" | "oneOf" => Kept::Same,
            "$ref" | "$dynamicRef" | "$recursiveRef" => Kept::Reference,
            "format" | "pattern" => Kept::Text,
            "enum" => Kept::Values,
            "const" | "x-guidance" => Kept::Constant,
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => Kept::Count,
            "required" => Kept::Required,
            "type" | "items" | "prefixItems" | "additionalItems" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" | "multipleOf" | "dependentRequired" | "propertyNames" | "nullable" => Kept::Elsewhere,
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
            | "uniqueItems" => Kept::Unheld,
            _ => Kept::Nothing,
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

/// Whether a regular expression looks around, or back to what it found: no automaton does that.
pub(super) fn is_beyond(pattern: &str) -> bool {
    let looks = ["(?=", "(?!", "(?<=", "(?<!", "\\k<", "(?>"].iter().any(|sign| pattern.contains(sign));
    let back = |(at, _): (usize, &str)| {
        let digit = pattern[at + 1..].starts_with(|c: char| ('1'..='9').contains(&c));
        digit && !pattern[..at].ends_with('\\')
    };
    looks || pattern.match_indices('\\').any(back)
}

/// Whether no value is of two of these schemas, as far as their types, constants and one property that tells them apart say.
pub(super) fn disjoint(all: &[Value]) -> bool {
    all.iter().enumerate().all(|(i, a)| all[i + 1..].iter().all(|b| differ(a, b)))
}

fn differ(a: &Value, b: &Value) -> bool {
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
        matches!((of(a, name), of(b, name)), (Some(a), Some(b)) if differ(&a, &b))
    };
    if shared.into_iter().any(|name| tells(&name)) {
        return true;
    }
    // One has no others than it names, and the other must have one of those.
    let shut = |v: &Value, other: &Value| {
        v["additionalProperties"] == false
            && must(other).iter().any(|name| name.as_str().is_some_and(|name| of(v, name).is_none()))
    };
    shut(a, b) || shut(b, a)
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

    /// Bounds of numbers: those of an older draft are truth values beside others.
    pub(super) fn numbers(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) {
        let near = |value: &Value| value.as_f64().filter(|f| f.abs() < FAR);
        let mut own = Map::new();
        for (bound, strict) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            let is_strict = map.get(strict) == Some(&Value::Bool(true));
            if let Some(value) = map.get(bound).filter(|v| near(v).is_some()) {
                own.insert(if is_strict { strict } else { bound }.into(), value.clone());
            }
            if let Some(value) = map.get(strict).filter(|v| near(v).is_some()) {
                own.insert(strict.into(), value.clone());
            }
        }
        if let Some(value) = map.get("multipleOf").filter(|v| near(v).is_some_and(|f| f > 0.0)) {
            own.insert("multipleOf".into(), value.clone());
        }
        if own.is_empty() {
            return;
        }
        let mut alone = own.clone();
        alone.insert(
            "type".into(),
            json!(if out.get("type") == Some(&json!("integer")) { "integer" } else { "number" }),
        );
        if self.compiles(&alone.into()) {
            out.extend(own);
            return;
        }
        for (key, value) in own {
            let mut one = Map::from_iter([(key.clone(), value.clone())]);
            one.insert("type".into(), "number".into());
            match key != "multipleOf" && self.compiles(&one.into()) {
                true => drop(out.insert(key, value)),
                false => self.drop(at, &key, "is not held to: it cannot be compiled"),
            }
        }
    }

    /// Properties that must be there where others are: they must always be.
    pub(super) fn dependents(&mut self, map: &Map<String, Value>, _at: &str, out: &mut Map<String, Value>) {
        let Some(Value::Object(all)) = map.get("dependentRequired") else { return };
        let names = all.values().filter_map(Value::as_array).flatten().filter(|name| name.is_string());
        let mut must = out.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for name in names {
            if !must.contains(name) {
                must.push(name.clone());
            }
        }
        if !must.is_empty() {
            out.insert("required".into(), must.into());
        }
    }

    /// What names of properties are, where no property is named itself.
    pub(super) fn names(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) -> Result<()> {
        const KEY: &str = "propertyNames";
        let Some(names) = map.get(KEY).filter(|v| !v.is_null()) else { return Ok(()) };
        let says: Vec<&String> = names.as_object().into_iter().flat_map(Map::keys).collect();
        let plain = says.iter().all(|key| *key == "type" || super::Kept::of(key) == Kept::Nothing);
        if plain && *names != Value::Bool(false) {
            return Ok(());
        }
        let free = !map.contains_key("properties") && !map.contains_key("patternProperties");
        let value = out.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let pattern = names["pattern"].as_str().filter(|p| self.compiles(&json!({"type": "string", "pattern": p})));
        match (names["enum"].as_array(), pattern) {
            (Some(all), _) if free => {
                let each = all.iter().filter_map(|name| Some((name.as_str()?.to_string(), value.clone())));
                out.insert("properties".into(), each.collect::<Map<_, _>>().into());
            }
            (None, Some(pattern)) if free => {
                out.insert("patternProperties".into(), json!({ pattern: value }));
                if says.iter().any(|key| matches!(key.as_str(), "minLength" | "maxLength" | "format")) {
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
