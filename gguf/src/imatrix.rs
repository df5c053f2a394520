//! Importance matrices: how much each input column of each matrix matters, as mean squared activations over a text.
//!
//! Two formats are read: GGUF (tensors `NAME.in_sum2` and `NAME.counts`) and the older binary one. Both are parsed as
//! untrusted bytes.

use crate::map::Map;
use crate::{write, Error, Gguf, Result, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Longest name, and most entries, taken from an older file.
const MAX_NAME: usize = 1 << 16;
const MAX_ENTRIES: u32 = 1 << 20;

/// Importance of one matrix's columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImatrixEntry {
    /// Mean of squared activations, `[matrices, cols]`: one row per expert where there are experts.
    pub mean: Vec<f32>,
    /// Rows of `mean`.
    pub matrices: usize,
    /// ActivationQuant seen, per row.
    pub counts: Vec<f32>,
}

/// All matrices of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imatrix {
    /// By GGUF tensor name.
    pub entries: BTreeMap<String, ImatrixEntry>,
    /// Texts it was made from.
    pub datasets: Vec<String>,
    /// Chunks of text seen.
    pub chunks: u32,
}

fn fail<T>(path: &Path, what: impl Into<String>) -> Result<T> {
    Err(Error::file(path, "bad_imatrix", what))
}

impl Imatrix {
    /// Reads a file of either format.
    ///
    /// # Errors
    /// `bad_imatrix` and GGUF's own codes, naming the entry.
    pub fn open(path: &Path) -> Result<Imatrix> {
        let map = Map::open(path)?;
        if map.starts_with(b"GGUF") {
            return Self::from_gguf(&Gguf::open(path)?);
        }
        Self::from_legacy(&map, path)
    }

    fn from_gguf(gguf: &Gguf) -> Result<Imatrix> {
        let path = gguf.path();
        let floats = |name: &str| -> Option<Result<(Vec<f32>, &[u64])>> {
            let tensor = gguf.tensor(name)?;
            if tensor.type_id != 0 {
                return Some(fail(path, format!("tensor {name}: expected F32, found type {}", tensor.type_id)));
            }
            let bytes = gguf.data(tensor);
            let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            Some(Ok((values, &tensor.dims)))
        };
        let kind = gguf.meta().opt_str("general.type")?.unwrap_or("");
        if kind != "imatrix" {
            return fail(path, format!("general.type: expected imatrix, found {kind:?}"));
        }
        let mut out = Imatrix { chunks: gguf.meta().opt_u32("imatrix.chunk_count")?.unwrap_or(0), ..Self::default() };
        if let Some(names) = gguf.meta().opt_strings("imatrix.datasets")? {
            out.datasets = names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
        }
        for tensor in gguf.tensors() {
            let Some(name) = tensor.name.strip_suffix(".in_sum2") else { continue };
            let Some(counts) = floats(&format!("{name}.counts")) else {
                return fail(path, format!("{name}: expected {name}.counts beside its sums, found none"));
            };
            let Some(sums) = floats(&tensor.name) else { continue };
            let ((sums, _), (counts, _)) = (sums?, counts?);
            out.add(path, name, &sums, counts)?;
        }
        match out.entries.is_empty() {
            true => fail(path, "entries: expected at least 1, found 0"),
            false => Ok(out),
        }
    }

    /// Adds sums `[matrices, cols]` that stand over as many counts.
    fn add(&mut self, path: &Path, name: &str, sums: &[f32], counts: Vec<f32>) -> Result<()> {
        let matrices = counts.len();
        if matrices == 0 || sums.is_empty() || !sums.len().is_multiple_of(matrices) {
            let what = format!("{name}: expected as many sums for each count, found {} for {matrices}", sums.len());
            return fail(path, what);
        }
        let cols = sums.len() / matrices;
        let mut mean = Vec::with_capacity(sums.len());
        for (row, count) in sums.chunks_exact(cols).zip(&counts) {
            // An expert that saw nothing says nothing: its columns count alike.
            mean.extend(row.iter().map(|s| if *count > 0.0 { s / count } else { 1.0 }));
        }
        if let Some(bad) = mean.iter().position(|m| !m.is_finite() || *m < 0.0) {
            return fail(path, format!("{name}: expected finite sums of squares, found {} at {bad}", mean[bad]));
        }
        self.entries.insert(name.to_string(), ImatrixEntry { mean, matrices, counts });
        Ok(())
    }

    /// The older format: counts and lengths are 32-bit, all little-endian.
    ///
    /// # Errors
    /// `bad_imatrix`.
    pub fn from_legacy(bytes: &[u8], path: &Path) -> Result<Imatrix> {
        let mut reader = Legacy { bytes, at: 0, path };
        let count = reader.word("entries", MAX_ENTRIES)?;
        if count == 0 {
            return fail(path, "entries: expected at least 1, found 0");
        }
        let mut out = Imatrix::default();
        for i in 0..count {
            let len = reader.word(&format!("entry {i}: name's length"), MAX_NAME as u32)?;
            let name = String::from_utf8_lossy(reader.take(len, "name")?).into_owned();
            let calls = reader.word(&format!("{name}: calls"), u32::MAX)?;
            let values = reader.word(&format!("{name}: values"), u32::MAX)?;
            let Some(len) = values.checked_mul(4) else { return fail(path, format!("{name}: too many values")) };
            let raw = reader.take(len, &name)?;
            let sums: Vec<f32> = raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            out.add(path, &name, &sums, vec![calls as f32])?;
        }
        // The end is optional: the number of chunks and the text's name.
        if let Ok(chunks) = reader.word("chunks", u32::MAX) {
            out.chunks = chunks as u32;
            let dataset = reader.word("dataset", MAX_NAME as u32).and_then(|len| reader.take(len, "dataset"));
            out.datasets.extend(dataset.ok().map(|d| String::from_utf8_lossy(d).into_owned()));
        }
        Ok(out)
    }

    /// The GGUF form, read back by [`Imatrix::open`] and by llama.cpp.
    pub fn to_gguf(&self, chunk_size: u32) -> Vec<u8> {
        let text = |t: &str| Value::Str(t.as_bytes().to_vec());
        let mut datasets = (Vec::new(), Vec::new());
        for name in &self.datasets {
            datasets.0.extend(name.as_bytes());
            datasets.1.push(datasets.0.len());
        }
        let meta = [
            ("general.type", text("imatrix")),
            ("imatrix.datasets", Value::Strings { arena: datasets.0, ends: datasets.1 }),
            ("imatrix.chunk_count", Value::U32(self.chunks)),
            ("imatrix.chunk_size", Value::U32(chunk_size)),
        ];
        let (mut tensors, mut data) = (Vec::new(), Vec::new());
        let mut put = |name: String, dims: Vec<u64>, values: Vec<f32>| {
            tensors.push(write::Entry { name, dims, type_id: 0, len_bytes: 4 * values.len() as u64 });
            values.iter().for_each(|v| data.extend(v.to_le_bytes()));
            data.resize(data.len().next_multiple_of(write::ALIGNMENT as usize), 0);
        };
        for (name, entry) in &self.entries {
            let (matrices, cols) = (entry.matrices as u64, entry.mean.len() / entry.matrices.max(1));
            let sums = entry.mean.iter().enumerate().map(|(i, m)| m * entry.counts[i / cols.max(1)]).collect();
            put(format!("{name}.in_sum2"), vec![cols as u64, matrices], sums);
            put(format!("{name}.counts"), vec![1, matrices], entry.counts.clone());
        }
        let mut out = write::header(meta.iter().map(|(k, v)| (*k, v)), &tensors, write::ALIGNMENT);
        out.extend(data);
        out
    }

    /// Importance of the columns of matrix `index` (an expert, else 0) of a tensor of `cols` columns.
    ///
    /// # Errors
    /// An entry of another width.
    pub fn columns(&self, name: &str, index: usize, cols: usize) -> Result<Option<&[f32]>> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        // An older file keeps all experts in one row.
        let found = entry.mean.len() / entry.matrices;
        let row = if entry.matrices == 1 && found == cols { 0 } else { index * cols };
        match entry.mean.get(row..row + cols) {
            Some(part) if found.is_multiple_of(cols) => Ok(Some(part)),
            _ => Err(Error::Request(format!("importance matrix, {name}: expected {cols} columns, found {found}"))),
        }
    }
}

struct Legacy<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
}

impl<'a> Legacy<'a> {
    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let part = self.at.checked_add(len).and_then(|end| self.bytes.get(self.at..end));
        let Some(part) = part else {
            let left = self.bytes.len() - self.at;
            return fail(self.path, format!("{what}: expected {len} bytes at {}, found {left}", self.at));
        };
        self.at += len;
        Ok(part)
    }

    fn word(&mut self, what: &str, most: u32) -> Result<usize> {
        let b = self.take(4, what)?;
        let value = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        if value > most {
            return fail(self.path, format!("{what}: expected at most {most}, found {value}"));
        }
        Ok(value as usize)
    }
}
