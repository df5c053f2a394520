//! Bodies of requests: JSON read strictly, and its fields by type and range. Wrong types are refused by name, null is as good as
//! absent, and fields that nobody asks for are ignored.

mod json;

pub(crate) use json::parse;

use crate::errors::{invalid, Result};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// An object's fields, and where it stands in the body.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// The JSON pointer of the object, without its first slash; empty for the body itself.
    at: String,
}

impl<'a> Fields<'a> {
    /// The fields of a body.
    ///
    /// # Errors
    /// It is no object.
    pub fn of(body: &'a Value) -> Result<Fields<'a>> {
        Fields::under(body, String::new())
    }

    fn under(value: &'a Value, at: String) -> Result<Fields<'a>> {
        match value {
            Value::Object(map) => Ok(Fields { map, at }),
            other => Err(wrong(&at, "an object", other)),
        }
    }

    /// Where a field stands.
    pub fn pointer(&self, name: &str) -> String {
        match self.at.as_str() {
            "" => name.to_string(),
            at => format!("{at}/{name}"),
        }
    }

    /// A refusal that names a field.
    pub fn refuse(&self, name: &str, message: impl std::fmt::Display) -> crate::errors::RequestFault {
        let at = self.pointer(name);
        invalid(&at, format!("/{at}: {message}"))
    }

    /// All fields.
    pub fn map(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// A field of any type but null.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    /// A field of any type but null, which must be there.
    ///
    /// # Errors
    /// It is not.
    pub fn require(&self, name: &str) -> Result<&'a Value> {
        self.value(name).ok_or_else(|| self.refuse(name, "this field is required"))
    }

    /// True or false.
    ///
    /// # Errors
    /// Another type.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }

    /// A whole number; `1.0` is one.
    ///
    /// # Errors
    /// Another type or a number outside the range.
    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let whole = |f: f64| (f.fract() == 0.0 && f.abs() < 9e15).then_some(f as i64);
        let number = value.as_i64().or_else(|| value.as_f64().and_then(whole));
        match number {
            Some(n) if range.contains(&n) => Ok(Some(n)),
            _ => Err(self.wrong(name, &format!("a whole number from {} to {}", range.start(), range.end()), value)),
        }
    }

    /// A whole number that is not negative, in `range`: see [`Fields::integer`].
    ///
    /// # Errors
    /// Its.
    pub fn count(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let bound = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let number = self.integer(name, bound(*range.start())..=bound(*range.end()))?;
        Ok(number.and_then(|n| usize::try_from(n).ok()))
    }

    /// A number.
    ///
    /// # Errors
    /// Another type, or a number that is infinite as `f32`.
    pub fn number(&self, name: &str) -> Result<Option<f32>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_f64().map(|f| f as f32) {
            Some(f) if f.is_finite() => Ok(Some(f)),
            _ => Err(self.wrong(name, "a number", value)),
        }
    }

    /// Text.
    ///
    /// # Errors
    /// Another type.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// Text that must be there.
    ///
    /// # Errors
    /// It is not, or is of another type.
    pub fn require_text(&self, name: &str) -> Result<&'a str> {
        self.text(name)?.ok_or_else(|| self.refuse(name, "this field is required"))
    }

    /// A string or a list of strings, as a list.
    ///
    /// # Errors
    /// Another type.
    pub fn texts(&self, name: &str) -> Result<Vec<String>> {
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::String(s)) => Ok(vec![s.clone()]),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(i, v)| match v {
                    Value::String(s) => Ok(s.clone()),
                    other => Err(self.wrong(&format!("{name}/{i}"), "a string", other)),
                })
                .collect(),
            Some(other) => Err(self.wrong(name, "a string or a list of strings", other)),
        }
    }

    /// A list.
    ///
    /// # Errors
    /// Another type.
    pub fn list(&self, name: &str) -> Result<Option<&'a [Value]>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, "a list", other)),
        }
    }

    /// A list of objects; absent is empty.
    ///
    /// # Errors
    /// Another type.
    pub fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>> {
        let items = self.list(name)?.unwrap_or_default().iter().enumerate();
        items.map(|(i, v)| Fields::under(v, self.pointer(&format!("{name}/{i}")))).collect()
    }

    /// An object.
    ///
    /// # Errors
    /// Another type.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        self.value(name).map(|v| Fields::under(v, self.pointer(name))).transpose()
    }

    /// One of some words.
    ///
    /// # Errors
    /// Another type or word.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(self.refuse(name, format!("expected one of {}, found {text:?}", words.join(", "))))
            }
        }
    }

    /// A refusal of a field's type or range.
    pub fn wrong(&self, name: &str, expected: &str, found: &Value) -> crate::errors::RequestFault {
        wrong(&self.pointer(name), expected, found)
    }
}

fn wrong(at: &str, expected: &str, found: &Value) -> crate::errors::RequestFault {
    let found = match found {
        Value::Null => "null".to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(_) => "a string".to_string(),
        Value::Array(_) => "a list".to_string(),
        Value::Object(_) => "an object".to_string(),
    };
    invalid(at, format!("/{at}: expected {expected}, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_are_refused_by_name_and_null_is_absent() {
        let body = json!({"b": 1, "i": 1.5, "n": "x", "t": [], "l": {}, "o": [{"s": 2}], "z": null, "whole": 3.0, "big": 1e300});
        let fields = Fields::of(&body).unwrap();
        let field = |r: crate::errors::RequestFault| r.refusal.field.unwrap();
        assert_eq!(field(fields.boolean("b").unwrap_err()), "b");
        assert_eq!(field(fields.integer("i", 0..=9).unwrap_err()), "i");
        assert_eq!(field(fields.number("n").unwrap_err()), "n");
        assert_eq!(field(fields.number("big").unwrap_err()), "big");
        assert_eq!(field(fields.text("t").unwrap_err()), "t");
        assert_eq!(field(fields.list("l").unwrap_err()), "l");
        let inner = &fields.objects("o").unwrap()[0];
        let fault = inner.text("s").unwrap_err();
        assert_eq!(fault.refusal.message, "/o/0/s: expected a string, found 2");
        assert_eq!(fields.integer("whole", 0..=9).unwrap(), Some(3));
        assert!(fields.integer("whole", 0..=2).is_err());
        assert!(fields.value("z").is_none() && fields.text("z").unwrap().is_none() && fields.require("z").is_err());
    }
}
