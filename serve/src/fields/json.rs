//! JSON, read strictly: bounded depth, each key once, nothing after the value.

use crate::errors::{invalid, Result};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Levels of lists and objects inside each other.
const DEPTH: usize = 64;

/// The value that a body holds.
///
/// # Errors
/// It is not UTF-8 or not JSON, is nested too deep, has a key twice or more after its value.
pub(crate) fn parse(body: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(body)
        .map_err(|e| invalid("", format!("the body is not UTF-8 from byte {} on", e.valid_up_to())))?;
    // Some programs put a mark of the byte order in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Level(0).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| invalid("", format!("the body is not the JSON that it should be: {e}")))
}

/// A value at that depth.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn deeper<E: Error>(self) -> std::result::Result<Level, E> {
        match self.0 < DEPTH {
            true => Ok(Level(self.0 + 1)),
            false => Err(E::custom(format!("lists and objects are nested over {DEPTH} deep"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> std::result::Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> std::result::Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> std::result::Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_f64<E: Error>(self, n: f64) -> std::result::Result<Value, E> {
        Number::from_f64(n).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, s: &str) -> std::result::Result<Value, E> {
        Ok(Value::String(s.to_string()))
    }

    fn visit_string<E>(self, s: String) -> std::result::Result<Value, E> {
        Ok(Value::String(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let level = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(level)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Value, A::Error> {
        let level = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice in one object")));
            }
            let value = entries.next_value_seed(level)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_strict_json_is_refused() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n)).into_bytes();
        assert!(
            parse(&nested(DEPTH)).is_ok() && parse(&nested(DEPTH + 1)).is_err() && parse(&nested(100_000)).is_err()
        );
        let bad: &[&[u8]] = &[
            b"",
            b"{",
            b"{}{}",
            b"{\"a\":1,\"a\":2}",
            b"{\"o\":{\"a\":1,\"b\":1,\"a\":1}}",
            b"[1,]",
            b"NaN",
            b"1e999",
            b"\"\xff\"",
            b"\"\\ud800\"",
            b"{'a':1}",
            b"\"\n\"",
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
        let value = parse(br#" {"a": [1, -2, 0.5, true, null, "\u00e4"]} "#).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1, -2, 0.5, true, null, "ä"]}));
    }
}
