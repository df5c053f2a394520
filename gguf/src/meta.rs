//! Metadata: typed lookups that name the key in every error.

use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Types of metadata values, in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with that id in files.
    pub fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(id as usize).copied()
    }

    /// Bytes of a value; of a string or array the fewest it can take.
    pub fn size(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::String => 8,
            ValueType::Array => 12,
        }
    }
}

/// A metadata value. Strings are bytes: files hold invalid UTF-8.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Str(Vec<u8>),
    /// Scalars, as stored.
    Array {
        element: ValueType,
        raw: Vec<u8>,
    },
    /// Strings back to back, and where each ends.
    Strings {
        arena: Vec<u8>,
        ends: Vec<usize>,
    },
    /// An array of that many arrays; not kept.
    Nested(u64),
}

fn to_array<const N: usize>(raw: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[..N]);
    out
}

impl Value {
    /// A scalar from its stored bytes.
    pub(super) fn scalar(kind: ValueType, raw: &[u8]) -> Value {
        match kind {
            ValueType::U8 => Value::U8(raw[0]),
            ValueType::I8 => Value::I8(raw[0] as i8),
            ValueType::U16 => Value::U16(u16::from_le_bytes(to_array(raw))),
            ValueType::I16 => Value::I16(i16::from_le_bytes(to_array(raw))),
            ValueType::U32 => Value::U32(u32::from_le_bytes(to_array(raw))),
            ValueType::I32 => Value::I32(i32::from_le_bytes(to_array(raw))),
            ValueType::U64 => Value::U64(u64::from_le_bytes(to_array(raw))),
            ValueType::I64 => Value::I64(i64::from_le_bytes(to_array(raw))),
            ValueType::F32 => Value::F32(f32::from_le_bytes(to_array(raw))),
            ValueType::F64 => Value::F64(f64::from_le_bytes(to_array(raw))),
            ValueType::Bool => Value::Bool(raw[0] == 1),
            ValueType::String | ValueType::Array => Value::Nested(0),
        }
    }

    fn int(&self) -> Option<i128> {
        Some(match self {
            Value::U8(v) => i128::from(*v),
            Value::I8(v) => i128::from(*v),
            Value::U16(v) => i128::from(*v),
            Value::I16(v) => i128::from(*v),
            Value::U32(v) => i128::from(*v),
            Value::I32(v) => i128::from(*v),
            Value::U64(v) => i128::from(*v),
            Value::I64(v) => i128::from(*v),
            _ => return None,
        })
    }

    fn float(&self) -> Option<f32> {
        match self {
            Value::F32(v) => Some(*v),
            Value::F64(v) => Some(*v as f32),
            _ => None,
        }
    }

    /// An array of bools, or of integers of which 0 is false.
    pub fn flags(&self) -> Option<Vec<bool>> {
        let flag = |v: Value| match v {
            Value::Bool(b) => Some(b),
            v => v.int().map(|i| i != 0),
        };
        self.elements()?.map(flag).collect()
    }

    /// Elements of an array of scalars.
    pub fn elements(&self) -> Option<impl Iterator<Item = Value> + '_> {
        match self {
            Value::Array { element, raw } => {
                Some(raw.chunks_exact(element.size() as usize).map(|b| Value::scalar(*element, b)))
            }
            _ => None,
        }
    }

    /// A short form for people: the value, or the first few of an array.
    pub fn display(&self) -> String {
        const SHOWN: usize = 6;
        let list = |len: usize, items: Vec<String>| {
            let more = if len > SHOWN { ", ..." } else { "" };
            format!("[{}{more}] ({len})", items.join(", "))
        };
        let text = |b: &[u8]| {
            let text: String = String::from_utf8_lossy(b).chars().take(80).collect();
            format!("{text:?}")
        };
        match self {
            Value::Bool(b) => b.to_string(),
            Value::F32(v) => v.to_string(),
            Value::F64(v) => v.to_string(),
            Value::Str(b) => text(b),
            Value::Nested(n) => format!("[arrays] ({n})"),
            Value::Strings { ends, .. } => {
                let strings = Strings { value: self };
                list(ends.len(), strings.iter().take(SHOWN).map(text).collect())
            }
            Value::Array { element, raw } => {
                let len = raw.len() / element.size() as usize;
                list(len, self.elements().into_iter().flatten().take(SHOWN).map(|v| v.display()).collect())
            }
            int => int.int().unwrap_or_default().to_string(),
        }
    }
}

/// An array of byte strings.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    value: &'a Value,
}

impl<'a> Strings<'a> {
    fn parts(&self) -> (&'a [u8], &'a [usize]) {
        match self.value {
            Value::Strings { arena, ends } => (arena, ends),
            _ => (&[], &[]),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.parts().1.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string at `i`.
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        let (arena, ends) = self.parts();
        let end = *ends.get(i)?;
        let start = if i == 0 { 0 } else { ends[i - 1] };
        Some(&arena[start..end])
    }

    /// All in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let me = Strings { value: self.value };
        (0..me.len()).filter_map(move |i| me.get(i))
    }
}

/// All key/value pairs of a file, in file order.
#[derive(Debug)]
pub struct Meta {
    path: PathBuf,
    pairs: Vec<(String, Value)>,
}

impl Meta {
    pub(super) fn new(path: &Path) -> Meta {
        Meta { path: path.to_path_buf(), pairs: Vec::new() }
    }

    pub(super) fn push(&mut self, key: String, value: Value) {
        self.pairs.push((key, value));
    }

    /// Puts a value in place of a key's, or behind all.
    pub(super) fn set(&mut self, key: String, value: Value) {
        match self.pairs.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((key, value)),
        }
    }

    /// All pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn wrong(&self, key: &str, expected: &str) -> Error {
        let found = self.get(key).map_or_else(String::new, Value::display);
        Error::file(&self.path, "bad_key_type", format!("{key}: expected {expected}, found {found}"))
    }

    fn missing(&self, key: &str) -> Error {
        Error::file(&self.path, "missing_key", format!("{key}: expected this key, found none"))
    }

    fn opt<'a, T>(&'a self, key: &str, expected: &str, get: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => get(value).map(Some).ok_or_else(|| self.wrong(key, expected)),
        }
    }

    /// A string that must be there and be UTF-8.
    ///
    /// # Errors
    /// `missing_key` or `bad_key_type`, as all getters here.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.opt_str(key)?.ok_or_else(|| self.missing(key))
    }

    /// A UTF-8 string.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>> {
        self.opt(key, "a UTF-8 string", |v| match v {
            Value::Str(b) => std::str::from_utf8(b).ok(),
            _ => None,
        })
    }

    /// An integer of any type whose value fits a u32, which must be there.
    pub fn u32(&self, key: &str) -> Result<u32> {
        self.opt_u32(key)?.ok_or_else(|| self.missing(key))
    }

    /// An integer of any type whose value fits a u32.
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>> {
        self.opt(key, "an integer of 0 to 2^32 - 1", |v| v.int().and_then(|i| u32::try_from(i).ok()))
    }

    /// A float of either width, which must be there.
    pub fn f32(&self, key: &str) -> Result<f32> {
        self.opt_f32(key)?.ok_or_else(|| self.missing(key))
    }

    /// A float of either width.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>> {
        self.opt(key, "a float", Value::float)
    }

    /// A bool.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>> {
        self.opt(key, "a bool", |v| match v {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// An array of integers that fit i32.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<Vec<i32>>> {
        self.opt(key, "an array of integers", |v| {
            v.elements()?.map(|e| e.int().and_then(|i| i32::try_from(i).ok())).collect()
        })
    }

    /// An array of floats.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.opt(key, "an array of floats", |v| v.elements()?.map(|e| e.float()).collect())
    }

    /// An array of strings.
    pub fn opt_strings(&self, key: &str) -> Result<Option<Strings<'_>>> {
        self.opt(key, "an array of strings", |v| matches!(v, Value::Strings { .. }).then_some(Strings { value: v }))
    }

    /// `general.architecture`.
    pub fn arch(&self) -> Result<&str> {
        self.str("general.architecture")
    }
}
