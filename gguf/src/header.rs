//! Bytes → header: a total function. Every count is checked against the bytes left before anything is allocated, all
//! arithmetic is checked, and nesting is bounded.

use super::meta::{Meta, Value, ValueType};
use crate::{Error, Result};
use std::collections::HashSet;
use std::path::Path;

/// Longest key, by the format.
const MAX_KEY: u64 = 65_535;
/// Longest tensor name, by the format.
const MAX_NAME: u64 = 64;
/// Arrays of arrays are skipped to this depth.
const MAX_NESTING: u32 = 4;
/// Largest dimension.
const MAX_DIM: u64 = 1 << 40;
/// Fewest bytes a key/value pair and a tensor descriptor take.
const MIN_KV: u64 = 13;
const MIN_TENSOR: u64 = 33;

/// Tensor types that are stored but no format of weights: id, name, bytes of an element.
const NUMBERS: &[(u32, &str, usize)] = &[(24, "I8", 1), (25, "I16", 2), (26, "I32", 4), (27, "I64", 8), (28, "F64", 8)];
/// Types that were taken out of the format, and what they were.
const REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];
/// Types that only exist while computing.
const INTERMEDIATE: &[(u32, &str)] = &[(9, "Q8_1"), (15, "Q8_K")];

/// A type that tensors are stored in: name, elements per block, bytes per block.
fn storage_type(id: u32) -> Option<(&'static str, u64, u64)> {
    let number = NUMBERS.iter().find(|t| t.0 == id).map(|t| (t.1, 1, t.2));
    let format = || pumex_quant::find(id).map(|f| (f.name, f.block_len, f.block_bytes));
    let (name, block_len, block_bytes) = number.or_else(format)?;
    Some((name, block_len as u64, block_bytes as u64))
}

/// Name of a ggml tensor type, `unknown` if there is none of that id.
pub fn type_name(id: u32) -> &'static str {
    let gone = || REMOVED.iter().chain(INTERMEDIATE).find(|t| t.0 == id).map(|t| t.1);
    storage_type(id).map(|t| t.0).or_else(gone).unwrap_or("unknown")
}

/// A tensor: name, shape, type, and where its bytes lie.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// GGUF name.
    pub name: String,
    /// Dimensions, the contiguous one first.
    pub dims: Vec<u64>,
    /// ggml type id.
    pub type_id: u32,
    /// Bytes.
    pub len_bytes: u64,
    /// Which file of the set.
    pub(super) file: usize,
    /// First byte in that file.
    pub(super) start: usize,
}

fn shape(dims: &[u64]) -> &[u64] {
    let last = dims.iter().rposition(|d| *d != 1).unwrap_or(0);
    &dims[..(last + 1).min(dims.len())]
}

impl Tensor {
    /// Weights in all.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Its extents without those of 1 at the end, which a file may name or leave out; one at least.
    pub fn shape(&self) -> &[u64] {
        shape(&self.dims)
    }

    /// Whether it has these extents, but for those of 1 at the end.
    pub fn is_shaped(&self, dims: &[usize]) -> bool {
        let dims: Vec<u64> = dims.iter().map(|d| *d as u64).collect();
        self.shape() == shape(&dims)
    }

    /// Index of its file in the set, and its first byte there.
    pub fn place(&self) -> (usize, u64) {
        (self.file, self.start as u64)
    }
}

/// What a file's header says.
#[derive(Debug)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Key/value pairs.
    pub meta: Meta,
    /// Tensors, with ranges that lie in the file.
    pub tensors: Vec<Tensor>,
    /// Odd but not wrong.
    pub warnings: Vec<String>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
}

impl<'a> Cursor<'a> {
    fn fail<T>(&self, code: &'static str, what: String) -> Result<T> {
        Err(Error::file(self.path, code, format!("byte {}: {what}", self.at)))
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8]> {
        if len > self.left() {
            return self.fail("truncated_metadata", format!("{what}: expected {len} bytes, found {}", self.left()));
        }
        let from = self.at;
        self.at += len as usize;
        Ok(&self.bytes[from..self.at])
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        let b = self.take(4, what)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        let mut b = [0; 8];
        b.copy_from_slice(self.take(8, what)?);
        Ok(u64::from_le_bytes(b))
    }

    /// A length-prefixed byte string.
    fn string(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.u64(what)?;
        if len > self.left() {
            let found = self.left();
            return self
                .fail("length_exceeds_file", format!("{what}: length {len}, expected at most the {found} bytes left"));
        }
        self.take(len, what)
    }

    fn count(&mut self, what: &str, min_bytes: u64) -> Result<u64> {
        let n = self.u64(what)?;
        if n > self.bytes.len() as u64 / min_bytes {
            let len = self.bytes.len();
            return self
                .fail("count_exceeds_file", format!("{what} {n}: expected what a file of {len} bytes can hold"));
        }
        Ok(n)
    }
}

/// Parses the header of a whole file.
///
/// # Errors
/// [`Error::File`] with the code of the first fault.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Header> {
    let mut c = Cursor { bytes, at: 0, path };
    if bytes.len() < 4 || &bytes[..4] != b"GGUF" {
        return c.fail("not_gguf", format!("expected the magic GGUF, found {}", looks_like(bytes)));
    }
    c.at = 4;
    let version = c.u32("version")?;
    if version != 2 && version != 3 {
        if version.swap_bytes() <= 3 && version != 0 && version > 0xffff {
            return c.fail("big_endian", "version: expected a little-endian file, found a big-endian one".into());
        }
        return c.fail("bad_version", format!("version: expected 2 or 3, found {version}"));
    }
    let n_tensors = c.count("tensor count", MIN_TENSOR)?;
    let n_kv = c.count("key count", MIN_KV)?;
    let mut warnings = Vec::new();
    let mut meta = Meta::new(path);
    let mut keys = HashSet::new();
    for i in 0..n_kv {
        let key = read_key(&mut c, i)?;
        if !keys.insert(key.clone()) {
            return c.fail("duplicate_key", format!("key {key}: expected once, found twice"));
        }
        let value = read_value(&mut c, &key)?;
        meta.push(key, value);
    }
    let alignment = alignment(&c, &meta, &mut warnings)?;
    let mut tensors = Vec::new();
    let mut offsets = Vec::new();
    let mut names = HashSet::new();
    for i in 0..n_tensors {
        let (tensor, offset) = read_tensor(&mut c, i)?;
        if !names.insert(tensor.name.clone()) {
            return c.fail("duplicate_tensor", format!("tensor {}: expected once, found twice", tensor.name));
        }
        tensors.push(tensor);
        offsets.push(offset);
    }
    let meta_end = c.at;
    let start = (meta_end as u64).next_multiple_of(alignment);
    place(&c, &mut tensors, &offsets, start, alignment, &mut warnings)?;
    let pad_end = (start as usize).min(bytes.len());
    if bytes[meta_end..pad_end].iter().any(|b| *b != 0) {
        warnings.push("padding before the tensor data is not zero".into());
    }
    Ok(Header { version, meta, tensors, warnings })
}

fn looks_like(bytes: &[u8]) -> String {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"version https://git-lfs", "a Git LFS pointer (run git lfs pull)"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"<!DOCTYPE", "an HTML page"),
        (b"<html", "an HTML page"),
        (b"\x80\x02", "a Python pickle"),
        (b"tjgg", "a GGJT file, older than GGUF"),
    ];
    if let Some((_, name)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*name).to_string();
    }
    if bytes.len() > 9 && bytes[8] == b'{' {
        return "what looks like safetensors".into();
    }
    match bytes.len() {
        0 => "an empty file".into(),
        n => format!("{:02x?}", &bytes[..n.min(4)]),
    }
}

fn read_key(c: &mut Cursor<'_>, i: u64) -> Result<String> {
    let raw = c.string(&format!("key {i}"))?;
    if raw.is_empty() {
        return c.fail("key_empty", format!("key {i}: expected a name, found none"));
    }
    if raw.len() as u64 > MAX_KEY {
        return c.fail("key_too_long", format!("key {i}: expected at most {MAX_KEY} bytes, found {}", raw.len()));
    }
    match std::str::from_utf8(raw) {
        Ok(key) if raw.iter().all(|b| (0x20..0x7f).contains(b)) => Ok(key.to_string()),
        _ => c.fail("key_not_ascii", format!("key {i}: expected printable ASCII, found {}", raw.escape_ascii())),
    }
}

fn read_value(c: &mut Cursor<'_>, key: &str) -> Result<Value> {
    let id = c.u32(key)?;
    let kind = value_type(c, key, id)?;
    match kind {
        ValueType::String => Ok(Value::Str(c.string(key)?.to_vec())),
        ValueType::Array => read_array(c, key),
        scalar => {
            let raw = c.take(scalar.size(), key)?;
            if scalar == ValueType::Bool && raw[0] > 1 {
                return c.fail("bad_bool", format!("{key}: expected 0 or 1, found {}", raw[0]));
            }
            Ok(Value::scalar(scalar, raw))
        }
    }
}

fn value_type(c: &Cursor<'_>, key: &str, id: u32) -> Result<ValueType> {
    match ValueType::from_id(id) {
        Some(kind) => Ok(kind),
        None => c.fail("bad_value_type", format!("{key}: expected a value type of 0 to 12, found {id}")),
    }
}

fn array_len(c: &mut Cursor<'_>, key: &str, element: ValueType) -> Result<u64> {
    let len = c.u64(key)?;
    let fits = len.checked_mul(element.size()).is_some_and(|bytes| bytes <= c.left());
    if !fits {
        let left = c.left();
        return c.fail("length_exceeds_file", format!("{key}: array of {len}, expected at most the {left} bytes left"));
    }
    Ok(len)
}

fn read_array(c: &mut Cursor<'_>, key: &str) -> Result<Value> {
    let id = c.u32(key)?;
    let element = value_type(c, key, id)?;
    let len = array_len(c, key, element)?;
    match element {
        ValueType::String => {
            let mut ends = Vec::new();
            let mut arena = Vec::new();
            for _ in 0..len {
                arena.extend_from_slice(c.string(key)?);
                ends.push(arena.len());
            }
            Ok(Value::Strings { arena, ends })
        }
        ValueType::Array => {
            for _ in 0..len {
                skip_array(c, key, 1)?;
            }
            Ok(Value::Nested(len))
        }
        scalar => {
            let raw = c.take(len * scalar.size(), key)?;
            if scalar == ValueType::Bool && raw.iter().any(|b| *b > 1) {
                return c.fail("bad_bool", format!("{key}: expected bytes of 0 or 1"));
            }
            Ok(Value::Array { element: scalar, raw: raw.to_vec() })
        }
    }
}

/// Arrays of arrays carry nothing that is used; they are walked and dropped.
fn skip_array(c: &mut Cursor<'_>, key: &str, depth: u32) -> Result<()> {
    if depth >= MAX_NESTING {
        return c.fail("nesting_too_deep", format!("{key}: expected arrays nested at most {MAX_NESTING} deep"));
    }
    let id = c.u32(key)?;
    let element = value_type(c, key, id)?;
    let len = array_len(c, key, element)?;
    for _ in 0..len {
        match element {
            ValueType::Array => skip_array(c, key, depth + 1)?,
            ValueType::String => drop(c.string(key)?),
            scalar => {
                c.take(len * scalar.size(), key)?;
                break;
            }
        }
    }
    Ok(())
}

fn alignment(c: &Cursor<'_>, meta: &Meta, warnings: &mut Vec<String>) -> Result<u64> {
    let key = "general.alignment";
    let Some(value) = meta.get(key) else {
        return Ok(32);
    };
    match value {
        Value::U32(a) if a.is_power_of_two() && *a <= 1 << 20 => {
            if *a < 8 {
                warnings.push(format!("{key}: expected a multiple of 8, found {a}"));
            }
            Ok(u64::from(*a))
        }
        other => {
            let what = format!("{key}: expected a u32 power of two up to 2^20, found {}", other.display());
            c.fail("bad_alignment", what)
        }
    }
}

fn read_tensor(c: &mut Cursor<'_>, i: u64) -> Result<(Tensor, u64)> {
    let raw = c.string(&format!("name of tensor {i}"))?;
    if raw.is_empty() || raw.len() as u64 > MAX_NAME || !raw.iter().all(|b| (0x20..0x7f).contains(b)) {
        let found = raw[..raw.len().min(80)].escape_ascii();
        return c.fail(
            "bad_tensor_name",
            format!("tensor {i}: expected 1 to {MAX_NAME} printable bytes, found \"{found}\""),
        );
    }
    let name = String::from_utf8_lossy(raw).into_owned();
    let n_dims = c.u32(&name)?;
    if !(1..=4).contains(&n_dims) {
        return c.fail("bad_n_dims", format!("tensor {name}: expected 1 to 4 dimensions, found {n_dims}"));
    }
    let mut dims = Vec::with_capacity(4);
    for _ in 0..n_dims {
        dims.push(c.u64(&name)?);
    }
    if dims.contains(&0) {
        return c.fail("zero_dim", format!("tensor {name}: expected no dimension of 0, found {dims:?}"));
    }
    let type_id = c.u32(&name)?;
    let offset = c.u64(&name)?;
    if REMOVED.iter().any(|t| t.0 == type_id) {
        let old = type_name(type_id);
        let what = format!(
            "tensor {name}: expected a current type, found {old}, removed from the format: quantize the model anew"
        );
        return c.fail("removed_tensor_type", what);
    }
    if INTERMEDIATE.iter().any(|t| t.0 == type_id) {
        let what = format!("tensor {name}: expected a type weights are stored in, found {}", type_name(type_id));
        return c.fail("type_not_storable", what);
    }
    let Some((kind, block_len, block_bytes)) = storage_type(type_id) else {
        return c.fail("unknown_tensor_type", format!("tensor {name}: expected a known type, found id {type_id}"));
    };
    let elements = dims.iter().try_fold(1u64, |n, d| if *d > MAX_DIM { None } else { n.checked_mul(*d) });
    let len_bytes = elements.filter(|n| *n <= i64::MAX as u64).and_then(|n| (n / block_len).checked_mul(block_bytes));
    let Some(len_bytes) = len_bytes.filter(|n| *n <= i64::MAX as u64) else {
        return c.fail("dim_overflow", format!("tensor {name}: expected a size that fits, found {dims:?}"));
    };
    if dims[0] % block_len != 0 {
        let what = format!("tensor {name}: expected rows of a multiple of {block_len} for {kind}, found {}", dims[0]);
        return c.fail("row_not_block_multiple", what);
    }
    Ok((Tensor { name, dims, type_id, len_bytes, file: 0, start: 0 }, offset))
}

/// Tensors lie one behind the other, each padded to the alignment, and all within the file.
fn place(
    c: &Cursor<'_>,
    tensors: &mut [Tensor],
    offsets: &[u64],
    start: u64,
    alignment: u64,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let file_len = c.bytes.len() as u64;
    let mut expected = 0u64;
    let mut end = start;
    for (t, &offset) in tensors.iter_mut().zip(offsets) {
        let from = start.checked_add(offset).filter(|from| *from <= file_len.max(start));
        let Some(from) = from else {
            let what = format!("tensor {}: offset {offset}, expected within the file's {file_len} bytes", t.name);
            return c.fail("offset_out_of_file", what);
        };
        if offset % alignment != 0 {
            let what = format!("tensor {}: offset {offset}, expected a multiple of {alignment}", t.name);
            return c.fail("offset_misaligned", what);
        }
        if offset != expected {
            return c.fail("offset_unexpected", format!("tensor {}: offset {offset}, expected {expected}", t.name));
        }
        let to = from.checked_add(t.len_bytes).filter(|to| *to <= file_len);
        let Some(to) = to else {
            let there = file_len.saturating_sub(from);
            return c
                .fail("truncated_data", format!("tensor {}: expected {} bytes, found {there}", t.name, t.len_bytes));
        };
        t.start = from as usize;
        end = to;
        expected = (to - start).next_multiple_of(alignment);
    }
    if file_len > start.saturating_add(expected).max(end) {
        warnings.push(format!("{} bytes after the last tensor", file_len - (start + expected).max(end)));
    }
    Ok(())
}
