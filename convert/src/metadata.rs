//! Keys and values of a GGUF file, in order, and the bytes that its header is.

use std::borrow::Cow;

/// Alignment of tensor data.
pub const ALIGNMENT: u64 = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum MetaValue {
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    U8s(Vec<u8>),
    U32s(Vec<u32>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    Bools(Vec<bool>),
    Strs(Vec<String>),
}

impl From<&str> for MetaValue {
    fn from(text: &str) -> MetaValue {
        MetaValue::Str(text.to_string())
    }
}

impl From<String> for MetaValue {
    fn from(text: String) -> MetaValue {
        MetaValue::Str(text)
    }
}

/// Metadata in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    pairs: Vec<(Cow<'static, str>, MetaValue)>,
}

impl Meta {
    /// Sets a key, which keeps its place if it is there. Empty texts and lists are left out, as readers expect.
    pub fn set(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<MetaValue>) {
        let (key, value) = (key.into(), value.into());
        let empty = match &value {
            MetaValue::Str(text) => text.is_empty(),
            MetaValue::U8s(v) => v.is_empty(),
            MetaValue::U32s(v) => v.is_empty(),
            MetaValue::I32s(v) => v.is_empty(),
            MetaValue::F32s(v) => v.is_empty(),
            MetaValue::Bools(v) => v.is_empty(),
            MetaValue::Strs(v) => v.is_empty(),
            _ => false,
        };
        if empty {
            return;
        }
        match self.pairs.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((key, value)),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&MetaValue> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetaValue)> {
        self.pairs.iter().map(|(k, v)| (k.as_ref(), v))
    }
}

/// A tensor as the header names it.
#[derive(Clone, Debug)]
pub struct TensorHeader<'a> {
    /// GGUF name.
    pub name: &'a str,
    /// Dimensions, the contiguous one last.
    pub shape: &'a [usize],
    /// ggml type id.
    pub type_id: u32,
    /// Bytes of its data.
    pub len_bytes: u64,
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_list(out: &mut Vec<u8>, element: u32, len: usize) {
    out.extend(9u32.to_le_bytes());
    out.extend(element.to_le_bytes());
    out.extend((len as u64).to_le_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &MetaValue) {
    let mut scalar = |kind: u32, bytes: &[u8]| {
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    };
    match value {
        MetaValue::U32(v) => scalar(4, &v.to_le_bytes()),
        MetaValue::I32(v) => scalar(5, &v.to_le_bytes()),
        MetaValue::F32(v) => scalar(6, &v.to_le_bytes()),
        MetaValue::Bool(v) => scalar(7, &[u8::from(*v)]),
        MetaValue::Str(text) => {
            scalar(8, &[]);
            put_text(out, text);
        }
        MetaValue::U8s(list) => {
            put_list(out, 0, list.len());
            out.extend(list);
        }
        MetaValue::U32s(list) => {
            put_list(out, 4, list.len());
            list.iter().for_each(|v| out.extend(v.to_le_bytes()));
        }
        MetaValue::I32s(list) => {
            put_list(out, 5, list.len());
            list.iter().for_each(|v| out.extend(v.to_le_bytes()));
        }
        MetaValue::F32s(list) => {
            put_list(out, 6, list.len());
            list.iter().for_each(|v| out.extend(v.to_le_bytes()));
        }
        MetaValue::Bools(list) => {
            put_list(out, 7, list.len());
            out.extend(list.iter().map(|v| u8::from(*v)));
        }
        MetaValue::Strs(list) => {
            put_list(out, 8, list.len());
            list.iter().for_each(|v| put_text(out, v));
        }
    }
}

/// The file up to its first tensor's data, padded to the alignment.
pub fn header(meta: &Meta, tensors: &[TensorHeader<'_>]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((meta.pairs.len() as u64).to_le_bytes());
    for (key, value) in meta.iter() {
        put_text(&mut out, key);
        put_value(&mut out, value);
    }
    let mut offset = 0u64;
    for tensor in tensors {
        put_text(&mut out, tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|d| out.extend((*d as u64).to_le_bytes()));
        out.extend(tensor.type_id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += tensor.len_bytes.next_multiple_of(ALIGNMENT);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
    out
}
