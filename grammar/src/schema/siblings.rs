//! What stands beside references and lists of one schema; and null beside other values.

use super::keywords::KeywordRule;
use super::Walk;
use serde_json::{json, Map, Value};

impl Walk<'_> {
    /// A list of one schema that holds for a value about which nothing else is said.
    pub(super) fn only<'v>(&self, map: &'v Map<String, Value>) -> Option<&'v Value> {
        let silent =
            |key: &String| matches!(key.as_str(), "allOf" | "nullable") || KeywordRule::of(key) == KeywordRule::Nothing;
        match map.get("allOf") {
            Some(Value::Array(all)) if all.len() == 1 && map.keys().all(silent) => all.first(),
            _ => None,
        }
    }

    /// What stands beside a reference: types that it has anyway go; and where it leads back to itself, all that cannot be compiled then.
    pub(super) fn merge_siblings(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) {
        let target = map.get("$ref").and_then(Value::as_str).and_then(|name| self.references.find(self.whole, name));
        let (Some(target), true) = (target, out.contains_key("$ref")) else { return };
        let kinds = |value: Option<&Value>| match value {
            Some(Value::Array(all)) => all.clone(),
            Some(Value::String(one)) => vec![one.clone().into()],
            _ => Vec::new(),
        };
        let inner = kinds(self.whole.pointer(&target).and_then(|target| target.get("type")));
        let own = kinds(out.get("type"));
        if !inner.is_empty() && inner.iter().all(|kind| own.contains(kind)) {
            out.shift_remove("type");
        }
        if out.len() > 1 && self.tries.is_some() && self.references.recurs(self.whole, &target) {
            let others: Vec<String> = out.keys().filter(|key| *key != "$ref").cloned().collect();
            for key in others {
                out.shift_remove(&key);
                self.drop(at, &key, "is not held to: it stands beside a reference that leads back to itself");
            }
        }
    }
}

/// Whether a schema's value may be null beside what else it says.
pub(super) fn is_nullable(map: &Map<String, Value>) -> bool {
    map.get("nullable") == Some(&Value::Bool(true))
}

/// Whether every value is of a schema.
pub(super) fn is_any(schema: &Value) -> bool {
    *schema == Value::Bool(true) || *schema == json!({})
}

/// A value may be null, too.
pub(super) fn nullable(mut out: Map<String, Value>) -> Value {
    let plain = out.contains_key("type") || out.contains_key("enum");
    if !plain || ["$ref", "anyOf", "allOf", "const"].iter().any(|key| out.contains_key(*key)) {
        return match out.is_empty() {
            true => out.into(),
            false => json!({"anyOf": [out, {"type": "null"}]}),
        };
    }
    if let Some(kinds) = out.get_mut("type") {
        let mut all = match kinds.take() {
            Value::Array(all) => all,
            one => vec![one],
        };
        if !all.contains(&json!("null")) {
            all.push("null".into());
        }
        *kinds = all.into();
    }
    if let Some(Value::Array(values)) = out.get_mut("enum") {
        if !values.contains(&Value::Null) {
            values.push(Value::Null);
        }
    }
    out.into()
}
