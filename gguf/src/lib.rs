//! GGUF files: metadata and named tensors, over one mapped file or a split set.
//!
//! [`header`] parses bytes, [`meta`] looks values up by key, a private part opens the further files of a set. Nothing here
//! allocates more than the file justifies, and every range is checked before it is used.

pub mod error;
pub mod file;
pub mod imatrix;
pub mod map;
pub mod spelling;

pub use error::{Error, Result};

pub mod header;
pub mod meta;
mod split;
pub mod write;

pub use header::{type_name, Tensor};
pub use meta::{Meta, Strings, Value, ValueType};

pub use crate::map::FileAccess;

use crate::map::Map;
use std::ops::Deref;
use std::path::{Path, PathBuf};

#[derive(Debug)]
enum Bytes {
    Map(Map),
    Static(&'static [u8]),
    /// Rows that tensors repeat.
    Made(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
            Bytes::Made(bytes) => bytes,
        }
    }
}

/// A model file, or all files of a split.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    version: u32,
    meta: Meta,
    tensors: Vec<Tensor>,
    files: Vec<Bytes>,
    warnings: Vec<String>,
    /// So many of the last tensors are in no file: see [`Gguf::attach`].
    attached: usize,
}

impl Gguf {
    /// Opens `path` and, if it is the first of a split set, the others.
    ///
    /// # Errors
    /// [`crate::Error::Io`], or [`crate::Error::File`] with a code that says what is malformed.
    pub fn open(path: &Path) -> Result<Gguf> {
        Self::open_with(path, FileAccess::default())
    }

    /// Opens `path`, and the others of a split set, mapped or read as `access` says.
    ///
    /// # Errors
    /// As [`Gguf::open`]; memory that does not suffice for what is read.
    pub fn open_with(path: &Path, access: FileAccess) -> Result<Gguf> {
        let first = Self::parse(path, Bytes::Map(Map::open_with(path, access)?))?;
        split::complete(first, access)
    }

    /// A model embedded in the program, named `name` in messages.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Gguf> {
        split::complete(Self::parse(Path::new(name), Bytes::Static(bytes))?, FileAccess::default())
    }

    /// A model that is in no file: metadata, tensors with the index and byte of `made` that they start at, and these bytes.
    pub fn without_file(
        name: &Path,
        meta: Vec<(String, Value)>,
        tensors: Vec<(write::Entry, (usize, usize))>,
        made: Vec<Vec<u8>>,
    ) -> Gguf {
        let mut pairs = Meta::new(name);
        meta.into_iter().for_each(|(key, value)| pairs.push(key, value));
        let tensor = |(e, (file, start)): (write::Entry, (usize, usize))| {
            let write::Entry { name, dims, type_id, len_bytes } = e;
            Tensor { name, dims, type_id, len_bytes, file, start }
        };
        Gguf {
            path: name.to_path_buf(),
            version: 3,
            meta: pairs,
            tensors: tensors.into_iter().map(tensor).collect(),
            files: made.into_iter().map(Bytes::Made).collect(),
            warnings: Vec::new(),
            attached: 0,
        }
    }

    /// This file with `pairs` as metadata in place of its own, for those who read it.
    pub fn with_meta(mut self, pairs: Vec<(String, Value)>) -> Gguf {
        pairs.into_iter().for_each(|(key, value)| self.meta.set(key, value));
        self
    }

    /// Whether its files are still what they were when they were opened; what was computed with others is wrong.
    ///
    /// # Errors
    /// A mapped file that became shorter, or was written to: its name.
    pub fn check(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| match file {
            Bytes::Map(map) => map.check(),
            Bytes::Static(_) | Bytes::Made(_) => Ok(()),
        })
    }

    fn parse(path: &Path, bytes: Bytes) -> Result<Gguf> {
        let header = header::parse(&bytes, path)?;
        Ok(Gguf {
            path: path.to_path_buf(),
            version: header.version,
            meta: header.meta,
            tensors: header.tensors,
            files: vec![bytes],
            warnings: header.warnings,
            attached: 0,
        })
    }

    /// The (first) file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// GGUF version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The metadata of the first file.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// All tensors, in file order; those that were attached come last.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensors of the file itself.
    pub fn own_tensors(&self) -> &[Tensor] {
        &self.tensors[..self.tensors.len() - self.attached]
    }

    /// The tensor of that name in the file itself.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.own_tensors().iter().find(|t| t.name == name)
    }

    /// Adds a tensor that is in no file, with all of its bytes. The file's own do not change.
    pub fn attach(&mut self, entry: write::Entry, bytes: Vec<u8>) {
        let write::Entry { name, dims, type_id, len_bytes } = entry;
        self.tensors.push(Tensor { name, dims, type_id, len_bytes, file: self.files.len(), start: 0 });
        self.files.push(Bytes::Made(bytes));
        self.attached += 1;
    }

    /// The attached tensor of that name, with its index.
    pub fn find_attached(&self, name: &str) -> Option<(usize, &Tensor)> {
        let own = self.tensors.len() - self.attached;
        self.tensors.iter().enumerate().skip(own).find(|(_, t)| t.name == name)
    }

    /// The bytes of a tensor of this file. Without a file there may be only the first rows, which the others repeat.
    pub fn data(&self, tensor: &Tensor) -> &[u8] {
        let (file, len) = (&self.files[tensor.file], tensor.len_bytes as usize);
        let len = match file {
            Bytes::Made(made) => {
                let rows = tensor.elements() / tensor.dims.first().copied().unwrap_or(1).max(1);
                let row = (len / rows.max(1) as usize).max(1);
                len.min((made.len() - tensor.start) / row * row)
            }
            _ => len,
        };
        &file[tensor.start..tensor.start + len]
    }

    /// Brings in `len` bytes of a tensor from byte `from` on, before they are read; see [`Map::touch`].
    ///
    /// # Errors
    /// `truncated_data` if the file has lost them since it was opened.
    pub fn touch(&self, tensor: &Tensor, from: usize, len: usize) -> Result<()> {
        let Bytes::Map(map) = &self.files[tensor.file] else { return Ok(()) };
        map.touch(tensor.start + from, len).map_err(|_| {
            let what = format!("tensor {}: expected {} bytes, found the file cut off", tensor.name, tensor.len_bytes);
            Error::file(&self.path, "truncated_data", what)
        })
    }

    /// The mapped files, each with the index that [`Tensor::place`] names; an embedded model has none.
    pub fn maps(&self) -> impl Iterator<Item = (usize, &Map)> {
        self.files.iter().enumerate().filter_map(|(i, f)| match f {
            Bytes::Map(map) => Some((i, map)),
            Bytes::Static(_) | Bytes::Made(_) => None,
        })
    }

    /// What is odd but not wrong.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.len() as u64).sum()
    }
}
