//! Metadata and tensor descriptors → the bytes a GGUF v3 file starts with.

use super::meta::{Value, ValueType};

/// Alignment of tensor data unless the file says otherwise.
pub const ALIGNMENT: u64 = 32;

/// A tensor as the header names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// GGUF name.
    pub name: String,
    /// Dimensions, the contiguous one first.
    pub dims: Vec<u64>,
    /// ggml type id.
    pub type_id: u32,
    /// Bytes of its data.
    pub len_bytes: u64,
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

fn type_id(kind: ValueType) -> u32 {
    kind as u32
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut scalar = |kind: ValueType, bytes: &[u8]| {
        out.extend(type_id(kind).to_le_bytes());
        out.extend(bytes);
    };
    match value {
        Value::U8(v) => scalar(ValueType::U8, &v.to_le_bytes()),
        Value::I8(v) => scalar(ValueType::I8, &v.to_le_bytes()),
        Value::U16(v) => scalar(ValueType::U16, &v.to_le_bytes()),
        Value::I16(v) => scalar(ValueType::I16, &v.to_le_bytes()),
        Value::U32(v) => scalar(ValueType::U32, &v.to_le_bytes()),
        Value::I32(v) => scalar(ValueType::I32, &v.to_le_bytes()),
        Value::U64(v) => scalar(ValueType::U64, &v.to_le_bytes()),
        Value::I64(v) => scalar(ValueType::I64, &v.to_le_bytes()),
        Value::F32(v) => scalar(ValueType::F32, &v.to_le_bytes()),
        Value::F64(v) => scalar(ValueType::F64, &v.to_le_bytes()),
        Value::Bool(v) => scalar(ValueType::Bool, &[u8::from(*v)]),
        Value::Str(bytes) => {
            scalar(ValueType::String, &[]);
            put_string(out, bytes);
        }
        Value::Array { element, raw } => {
            scalar(ValueType::Array, &type_id(*element).to_le_bytes());
            out.extend((raw.len() as u64 / element.size()).to_le_bytes());
            out.extend(raw);
        }
        Value::Strings { arena, ends } => {
            scalar(ValueType::Array, &type_id(ValueType::String).to_le_bytes());
            out.extend((ends.len() as u64).to_le_bytes());
            let mut start = 0;
            for end in ends {
                put_string(out, &arena[start..*end]);
                start = *end;
            }
        }
        // Its elements were not kept: an empty array of arrays stands for it.
        Value::Nested(_) => {
            scalar(ValueType::Array, &type_id(ValueType::Array).to_le_bytes());
            out.extend(0u64.to_le_bytes());
        }
    }
}

/// The file up to its first tensor's data, padded to the alignment.
pub fn header<'a>(meta: impl Iterator<Item = (&'a str, &'a Value)>, tensors: &[Entry], alignment: u64) -> Vec<u8> {
    let (mut pairs, mut count) = (Vec::new(), 0u64);
    for (key, value) in meta {
        put_string(&mut pairs, key.as_bytes());
        put_value(&mut pairs, value);
        count += 1;
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(pairs);
    let mut offset = 0u64;
    for tensor in tensors {
        put_string(&mut out, tensor.name.as_bytes());
        out.extend((tensor.dims.len() as u32).to_le_bytes());
        tensor.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
        out.extend(tensor.type_id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += tensor.len_bytes.next_multiple_of(alignment);
    }
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
    out
}
