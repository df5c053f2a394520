//! Bounds: of numbers, of how many properties an object has, and of which it must have beside others.

use super::Walk;
use serde_json::{json, Map, Value};

/// Bounds that are further from 0 bound nothing that anybody writes, and make no automaton.
const FAR: f64 = 1e30;

/// The first number that 64 bits do not hold, and the last before it that a double does.
const WORD: f64 = 9_223_372_036_854_775_808.0;
const LAST: f64 = 9_223_372_036_854_774_784.0;

/// The pattern of texts of a length that a schema bounds.
pub(super) fn lengths(schema: &Value) -> Option<String> {
    let of = |key: &str| schema.get(key).and_then(super::count);
    let (least, most) = (of("minLength"), of("maxLength"));
    if least.is_none() && most.is_none() {
        return None;
    }
    let most = most.map_or_else(String::new, |n| n.to_string());
    Some(format!("^[\\s\\S]{{{},{most}}}$", least.unwrap_or(0)))
}

impl Walk<'_> {
    /// Bounds of numbers: those of an older draft are truth values beside others.
    pub(super) fn numbers(&mut self, map: &Map<String, Value>, at: &str, out: &mut Map<String, Value>) {
        let near = |value: &Value| value.as_f64().filter(|f| f.abs() < FAR);
        let held = |value: &Value| match value.as_f64() {
            Some(f) if f.abs() > LAST && f.abs() <= WORD => json!(if f < 0.0 { -LAST } else { LAST } as i64),
            _ => value.clone(),
        };
        let kind = json!(if out.get("type") == Some(&json!("integer")) { "integer" } else { "number" });
        let mut own = Map::new();
        for (bound, strict) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            let is_strict = map.get(strict) == Some(&Value::Bool(true));
            if let Some(value) = map.get(bound).filter(|v| near(v).is_some()) {
                own.insert(if is_strict { strict } else { bound }.into(), held(value));
            }
            if let Some(value) = map.get(strict).filter(|v| near(v).is_some()) {
                own.insert(strict.into(), held(value));
            }
        }
        if let Some(value) = map.get("multipleOf").filter(|v| near(v).is_some_and(|f| f > 0.0)) {
            own.insert("multipleOf".into(), value.clone());
        }
        if own.is_empty() {
            return;
        }
        let mut alone = own.clone();
        alone.insert("type".into(), kind.clone());
        if self.compiles(&alone.into()) {
            out.extend(own);
            return;
        }
        for (key, value) in own {
            let mut one = Map::from_iter([(key.clone(), value.clone())]);
            one.insert("type".into(), kind.clone());
            match key != "multipleOf" && self.compiles(&one.into()) {
                true => drop(out.insert(key, value)),
                false => self.drop(at, &key, "is not held to: it cannot be compiled"),
            }
        }
    }

    /// Properties that must be there where others are: they always must, but where they cannot be; then the others cannot.
    pub(super) fn dependents(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        let Some(Value::Object(all)) = map.get("dependentRequired") else { return };
        let mut must = out.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let shut =
            map.get("additionalProperties") == Some(&Value::Bool(false)) && !map.contains_key("patternProperties");
        let mut known = out.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (holder, names) in all {
            let names = || names.as_array().into_iter().flatten().filter(|name| name.is_string());
            if shut && names().any(|name| name.as_str().is_some_and(|name| !known.contains_key(name))) {
                known.shift_remove(holder);
                continue;
            }
            for name in names() {
                if !must.contains(name) {
                    must.push(name.clone());
                }
            }
        }
        if !must.is_empty() {
            out.insert("required".into(), must.into());
        }
        if out.contains_key("properties") {
            out.insert("properties".into(), known.into());
        }
    }

    /// How many properties an object has: bounds that say nothing beside its names go, and those that cannot be held to. `open`: others say
    /// of the same object which properties it has.
    pub(super) fn counts(&mut self, at: &str, out: &mut Map<String, Value>, open: bool) {
        const KEYS: [&str; 2] = ["minProperties", "maxProperties"];
        let named = out.get("properties").and_then(Value::as_object).map_or(0, Map::len) as u64;
        let must = out.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        let shut =
            out.get("additionalProperties") == Some(&Value::Bool(false)) && !out.contains_key("patternProperties");
        if out.get(KEYS[0]).and_then(Value::as_u64).is_some_and(|least| least <= must) {
            out.shift_remove(KEYS[0]);
        }
        if shut && out.get(KEYS[1]).and_then(Value::as_u64).is_some_and(|most| most >= named) {
            out.shift_remove(KEYS[1]);
        }
        let any = |all: &Value| all.as_object().map(|all| all.keys().map(|name| (name.clone(), json!(true))).collect());
        let alone = |out: &Map<String, Value>| {
            let mut alone = Map::from_iter([("type".to_string(), json!("object"))]);
            for key in ["properties", "patternProperties"] {
                let all: Option<Map<String, Value>> = out.get(key).and_then(any);
                alone.extend(all.map(|all| (key.to_string(), Value::Object(all))));
            }
            for key in ["required", "additionalProperties", KEYS[0], KEYS[1]] {
                let own = out.get(key).map(|v| if v.is_object() { json!(true) } else { v.clone() });
                alone.extend(own.map(|v| (key.to_string(), v)));
            }
            Value::Object(alone)
        };
        let merged = open || ["$ref", "allOf", "anyOf"].iter().any(|key| out.contains_key(*key));
        for key in KEYS.into_iter().rev() {
            let fails = |walk: &Self, out: &Map<String, Value>| match merged {
                true => walk.tries.is_some(),
                false => !walk.compiles(&alone(out)),
            };
            if out.contains_key(key) && fails(self, out) {
                out.shift_remove(key);
                self.drop(at, key, "is not held to: which properties there are is open");
            }
        }
    }
}
