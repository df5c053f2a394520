//! The tensors of a folder: safetensors files, mapped, and their checked headers.

use crate::map::FileBytes;
use crate::{json, Error, Result};
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files that a folder has at most.
const MOST_PARTS: usize = 4096;

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct StoredTensor {
    /// The tensor's name in the file.
    pub name: String,
    /// Dimensions, the contiguous one last.
    pub shape: Vec<usize>,
    /// Type of its elements.
    pub dtype: Dtype,
    part: usize,
    start: usize,
    end: usize,
}

/// A folder's tensors, file by file and by name.
#[derive(Debug)]
pub struct ModelFolder {
    parts: Vec<FileBytes>,
    tensors: Vec<StoredTensor>,
}

/// Whether elements can be read as floats.
fn readable(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::F32
            | Dtype::F16
            | Dtype::BF16
            | Dtype::F64
            | Dtype::I64
            | Dtype::I32
            | Dtype::I16
            | Dtype::I8
            | Dtype::U8
            | Dtype::BOOL
    )
}

/// Names of a folder's files that begin and end so, sorted.
fn list_matching_files(dir: &Path, begin: &str, end: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
        let name = entry.map_err(|e| Error::io(dir, e))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(begin) && name.ends_with(end) {
            names.push(name.to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Which file has which tensor, where an index says so.
fn index(path: &Path) -> Result<Option<BTreeMap<String, String>>> {
    let Some(object) = json::object(path)? else { return Ok(None) };
    let Some(Value::Object(map)) = object.get("weight_map") else {
        return Err(Error::file(path, "weight_map: expected an object, found none"));
    };
    let part = |(tensor, file): (&String, &Value)| match file.as_str() {
        Some(file) if Path::new(file).file_name().is_some_and(|name| name == file) => {
            Ok((tensor.clone(), file.to_string()))
        }
        _ => Err(Error::file(path, format!("weight_map: tensor {tensor}: expected a file's name, found {file}"))),
    };
    map.iter().map(part).collect::<Result<_>>().map(Some)
}

impl ModelFolder {
    /// Maps the files that begin with `begin` and checks their headers.
    ///
    /// # Errors
    /// No files, files that are missing or cut short, headers that are not what they should be.
    pub fn open(dir: &Path, begin: &str) -> Result<ModelFolder> {
        let at_index = dir.join(format!("{begin}.safetensors.index.json"));
        let index = index(&at_index)?;
        let names = match &index {
            Some(map) => map.values().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            None => list_matching_files(dir, begin, ".safetensors")?,
        };
        if names.is_empty() {
            let bin = list_matching_files(dir, "pytorch_model", ".bin")?;
            let found = bin.first().map_or("none".to_string(), |name| format!("{name}, which only Python reads"));
            return Err(Error::file(dir, format!("expected {begin}*.safetensors, found {found}")));
        }
        if names.len() > MOST_PARTS {
            return Err(Error::file(
                dir,
                format!("expected at most {MOST_PARTS} files of tensors, found {}", names.len()),
            ));
        }
        let mut folder = ModelFolder { parts: Vec::new(), tensors: Vec::new() };
        for name in &names {
            folder.add(&dir.join(name))?;
        }
        let mut seen = BTreeMap::new();
        for tensor in &folder.tensors {
            if let Some(first) = seen.insert(&tensor.name, tensor.part) {
                let what = format!(
                    "tensor {}: expected it once, found it in {} too",
                    tensor.name,
                    folder.parts[first].path().display()
                );
                return Err(Error::file(folder.parts[tensor.part].path(), what));
            }
        }
        if let Some(map) = &index {
            if let Some((tensor, file)) = map.iter().find(|(tensor, _)| !seen.contains_key(tensor)) {
                return Err(Error::file(
                    &dir.join(file),
                    format!("tensor {tensor}: expected as the index says, found none"),
                ));
            }
            if let Some((tensor, part)) = seen.iter().find(|(tensor, _)| !map.contains_key(**tensor)) {
                let what = format!("tensor {tensor}: expected it in the index {}, found none", at_index.display());
                return Err(Error::file(folder.parts[*part].path(), what));
            }
        }
        Ok(folder)
    }

    /// Maps one file and checks its header.
    fn add(&mut self, path: &Path) -> Result<()> {
        if !path.exists() {
            return Err(Error::file(path, "expected a file of tensors, found none"));
        }
        let map = FileBytes::open(path)?;
        let bytes = map.bytes();
        let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| {
            Error::file(path, format!("expected a safetensors header of {} bytes at most: {e}", bytes.len()))
        })?;
        let data = header.saturating_add(8);
        let mut tensors: Vec<StoredTensor> = Vec::new();
        for (name, info) in metadata.tensors() {
            let (start, end) = info.data_offsets;
            let (start, end) = (start.checked_add(data), end.checked_add(data));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(Error::file(
                    path,
                    format!("tensor {name}: expected its bytes in the file, found them past any end"),
                ));
            };
            if start > end || end > bytes.len() {
                let what =
                    format!("tensor {name}: expected its bytes in the file's {}, found them up to {end}", bytes.len());
                return Err(Error::file(path, what));
            }
            tensors.push(StoredTensor {
                name,
                shape: info.shape.clone(),
                dtype: info.dtype,
                part: self.parts.len(),
                start,
                end,
            });
        }
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        self.tensors.extend(tensors);
        self.parts.push(map);
        Ok(())
    }

    /// All tensors, file by file and by name.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// The file that has a tensor.
    pub fn path(&self, tensor: usize) -> &Path {
        self.parts[self.tensors[tensor].part].path()
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.parts.iter().map(|part| part.path().to_path_buf())
    }

    /// A tensor's bytes.
    pub fn bytes(&self, tensor: usize) -> &[u8] {
        let stored = &self.tensors[tensor];
        &self.parts[stored.part].bytes()[stored.start..stored.end]
    }

    /// Refuses types of elements that are not floats or integers.
    ///
    /// # Errors
    /// Such a tensor, by its name.
    pub fn readable(&self, tensor: usize) -> Result<()> {
        let stored = &self.tensors[tensor];
        if readable(stored.dtype) {
            return Ok(());
        }
        let what = format!("tensor {}: expected floats or integers, found {:?}", stored.name, stored.dtype);
        Err(Error::file(self.path(tensor), what))
    }

    /// `out.len()` elements of a tensor from `first` on, as floats.
    pub fn read(&self, tensor: usize, first: usize, out: &mut [f32]) {
        let (bytes, dtype) = (self.bytes(tensor), self.tensors[tensor].dtype);
        fn each<const N: usize>(bytes: &[u8], first: usize, out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
            for (o, b) in out.iter_mut().zip(bytes[first * N..].as_chunks::<N>().0) {
                *o = read(*b);
            }
        }
        match dtype {
            Dtype::F32 => each(bytes, first, out, f32::from_le_bytes),
            Dtype::F16 => each(bytes, first, out, |b| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => each(bytes, first, out, |b| half::bf16::from_le_bytes(b).to_f32()),
            Dtype::F64 => each(bytes, first, out, |b| f64::from_le_bytes(b) as f32),
            Dtype::I64 => each(bytes, first, out, |b| i64::from_le_bytes(b) as f32),
            Dtype::I32 => each(bytes, first, out, |b| i32::from_le_bytes(b) as f32),
            Dtype::I16 => each(bytes, first, out, |b| f32::from(i16::from_le_bytes(b))),
            Dtype::I8 => each(bytes, first, out, |b: [u8; 1]| f32::from(b[0] as i8)),
            // Others were refused as the folder was read.
            _ => each(bytes, first, out, |b: [u8; 1]| f32::from(b[0])),
        }
    }
}
