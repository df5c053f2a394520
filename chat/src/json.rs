//! JSON as Python's `json` module reads and writes it: keys keep their order, `1.0` stays a float, `1e-06` has two digits.

use crate::error::{Error, Result};

/// Levels of arrays and objects inside each other that are read.
const DEPTH: usize = 256;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent.
    Int(i128),
    /// Any other number; also integers that are too long.
    Float(f64),
    /// A string.
    Str(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: keys in order, each once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text that holds one value.
    ///
    /// # Errors
    /// The text is not JSON, or is nested over 256 levels deep.
    pub fn parse(text: &str) -> Result<Json> {
        let (value, used) = Json::parse_first(text)?;
        match text[used..].trim_start_matches(SPACE).is_empty() {
            true => Ok(value),
            false => Err(Error::Json(format!("more text after the value, at byte {used}"))),
        }
    }

    /// Reads the value that a text starts with; also how many bytes it has.
    ///
    /// # Errors
    /// As [`Json::parse`]'s.
    pub fn parse_first(text: &str) -> Result<(Json, usize)> {
        let mut reader = JsonReader { text, at: 0 };
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// The value of an object's key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// A string's text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    /// An array's elements.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// An object's entries.
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// Writes the value as `json.dumps(value, ensure_ascii=False)` does.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Int(i) => out.push_str(&i.to_string()),
            Json::Float(f) => out.push_str(&float(*f)),
            Json::Str(s) => quote(s, false, out),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(entries) => {
                out.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    quote(key, false, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// A float as JSON has it.
pub(crate) fn float(f: f64) -> String {
    match f {
        f if f.is_nan() => "NaN".to_string(),
        f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
        f => float_repr(f),
    }
}

/// A finite float as Python's `repr` has it.
pub(crate) fn float_repr(f: f64) -> String {
    if f.is_nan() {
        return "nan".to_string();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let shortest = format!("{f:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let text = format!("{f}");
        return if text.contains('.') { text } else { format!("{text}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Writes a string with its quotes.
pub(crate) fn quote(s: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && (c as u32) > 0x7e) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsonReader<'_> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        let line = 1 + self.text[..self.at].matches('\n').count();
        Err(Error::Json(format!("{what} at byte {}, line {line}", self.at)))
    }

    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > DEPTH {
            return Err(Error::Json(format!("nested over {DEPTH} levels deep")));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Str(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'N') => self.word("NaN", Json::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", Json::Float(f64::INFINITY)),
            Some(b'-') if self.text[self.at..].starts_with("-I") => self.word("-Infinity", Json::Float(-f64::INFINITY)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.fail("expected a value"),
            None => self.fail("the text ends where a value should be"),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.fail("expected , or ]"),
            }
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut entries: Vec<(String, Json)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("expected a key");
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return self.fail("expected :");
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            // The last value of a key counts, at the place of the first, as in a dict.
            match places.get(&key) {
                Some(&at) => {
                    let entry: &mut (String, Json) = &mut entries[at];
                    entry.1 = value;
                }
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value));
                }
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.fail("expected , or }"),
            }
        }
        self.at += 1;
        Ok(Json::Object(entries))
    }

    fn number(&mut self) -> Result<Json> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits = |mut at: usize| {
            while matches!(bytes.get(at), Some(b'0'..=b'9')) {
                at += 1;
            }
            at
        };
        let first = start + usize::from(bytes[start] == b'-');
        let mut end = digits(first);
        if end == first || (bytes[first] == b'0' && end > first + 1) {
            return self.fail("expected a number");
        }
        let whole = end;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if digits(sign) > sign {
                end = digits(sign);
            }
        }
        let text = &self.text[start..end];
        self.at = end;
        if end == whole {
            if let Ok(i) = text.parse() {
                return Ok(Json::Int(i));
            }
        }
        text.parse().map(Json::Float).or_else(|_| self.fail("expected a number"))
    }

    fn string(&mut self) -> Result<String> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while !matches!(bytes.get(self.at), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut out)?,
                Some(_) => return self.fail("a control character in a string"),
                None => return self.fail("a string without end"),
            }
        }
        self.at += 1;
        Ok(out)
    }

    fn escape(&mut self, out: &mut String) -> Result<()> {
        let kind = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 2;
        out.push(match kind {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unit()?,
            _ => {
                self.at -= 2;
                return self.fail("an unknown escape");
            }
        });
        Ok(())
    }

    /// The character of `\uXXXX`, or of two that are a surrogate pair; a lone surrogate is U+FFFD.
    fn unit(&mut self) -> Result<char> {
        let hex = |at: usize| {
            let digits = self.text.get(at..at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            digits.and_then(|d| u32::from_str_radix(d, 16).ok())
        };
        let Some(first) = hex(self.at) else { return self.fail("an unknown escape") };
        let pair = match first {
            0xd800..=0xdbff if self.text.get(self.at + 4..self.at + 6) == Some("\\u") => {
                hex(self.at + 6).filter(|second| (0xdc00..0xe000).contains(second))
            }
            _ => None,
        };
        self.at += if pair.is_some() { 10 } else { 4 };
        let code = pair.map_or(first, |second| 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
        Ok(char::from_u32(code).unwrap_or('\u{fffd}'))
    }
}
