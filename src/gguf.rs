//! GGUF files: metadata and named tensors, over one mapped file or a split set.
//!
//! [`header`] parses bytes, [`meta`] looks values up by key, a private part opens the further files of a set. Nothing here
//! allocates more than the file justifies, and every range is checked before it is used.

pub mod header;
pub mod meta;
mod split;
pub mod write;

pub use header::{type_name, Tensor};
pub use meta::{Meta, Strings, Value};

use crate::map::Map;
use crate::Result;
use std::ops::Deref;
use std::path::{Path, PathBuf};

#[derive(Debug)]
enum Bytes {
    Map(Map),
    Static(&'static [u8]),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
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
}

impl Gguf {
    /// Opens `path` and, if it is the first of a split set, the others.
    ///
    /// # Errors
    /// [`crate::Error::Io`], or [`crate::Error::File`] with a code that says what is malformed.
    pub fn open(path: &Path) -> Result<Gguf> {
        let first = Self::parse(path, Bytes::Map(Map::open(path)?))?;
        split::complete(first)
    }

    /// A model embedded in the program, named `name` in messages.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Gguf> {
        split::complete(Self::parse(Path::new(name), Bytes::Static(bytes))?)
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

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The bytes of a tensor of this file.
    pub fn data(&self, tensor: &Tensor) -> &[u8] {
        &self.files[tensor.file][tensor.start..tensor.start + tensor.len_bytes as usize]
    }

    /// The mapped files, each with the index that [`Tensor::place`] names; an embedded model has none.
    pub fn maps(&self) -> impl Iterator<Item = (usize, &Map)> {
        self.files.iter().enumerate().filter_map(|(i, f)| match f {
            Bytes::Map(map) => Some((i, map)),
            Bytes::Static(_) => None,
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
