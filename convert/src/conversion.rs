//! A folder's conversion: what will be in the file, decided before anything is written.

use crate::content::Content;
use crate::folder::ModelFolder;
use crate::metadata::{header, Meta, MetaValue, TensorHeader, ALIGNMENT};
use crate::types::{FileType, TensorType};
use crate::{adapter, arch, Error, Result};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// Weights of a chunk: 4 million, 16 MiB as f32.
const CHUNK_WEIGHTS: usize = 4 << 20;
/// ggml's id of MXFP4.
const MXFP4: u32 = 39;

/// What to make of a folder.
#[derive(Clone, Debug, Default)]
pub struct ConversionOptions {
    /// What matrices become; where nothing is said, what a model's first one is, and F32 in adapters.
    pub file_type: Option<FileType>,
    /// `tokenizer.ggml.pre`, where the vocabulary's own is not known.
    pub pre: Option<String>,
    /// The folder of an adapter's base model.
    pub base: Option<PathBuf>,
}

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// GGUF name.
    pub name: String,
    /// Its data.
    pub(crate) content: Content,
    /// Its type.
    pub(crate) kind: TensorType,
}

/// What takes a file's bytes, in order.
pub type Sink<'a> = dyn FnMut(&[u8]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversionReport {
    /// Weights of all tensors.
    pub weights: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A folder as a file to be.
#[derive(Debug)]
pub struct Conversion {
    /// Metadata in order.
    pub meta: Meta,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) folder: ModelFolder,
    /// The HF class of the model.
    pub class: String,
}

impl Tensor {
    /// Dimensions, the contiguous one last.
    pub fn shape(&self) -> &[usize] {
        match &self.content {
            Content::Weights(weights) => &weights.shape,
            Content::Blocks(blocks) => &blocks.shape,
        }
    }

    /// Weights.
    pub fn weights(&self) -> u64 {
        self.shape().iter().map(|d| *d as u64).product()
    }

    /// ggml's type id.
    pub fn type_id(&self) -> u32 {
        match &self.content {
            Content::Weights(_) => self.kind.id(),
            Content::Blocks(_) => MXFP4,
        }
    }

    /// Whether its weights are encoded, so that their type may be another.
    pub fn is_encoded(&self) -> bool {
        matches!(self.content, Content::Weights(_))
    }

    fn rows(&self) -> usize {
        self.shape().split_last().map_or(1, |(_, rest)| rest.iter().product())
    }

    fn row_bytes(&self) -> usize {
        match &self.content {
            Content::Weights(w) => self.kind.row_bytes(w.row()).unwrap_or(0),
            Content::Blocks(b) => b.row_bytes(),
        }
    }

    /// Bytes of its data.
    pub fn len_bytes(&self) -> u64 {
        self.rows() as u64 * self.row_bytes() as u64
    }
}

impl Conversion {
    /// Reads a folder: of a model, or of an adapter of a model.
    ///
    /// # Errors
    /// Everything that is wrong with it, by file and tensor.
    pub fn new(dir: &Path, options: &ConversionOptions) -> Result<Conversion> {
        if !dir.is_dir() {
            return Err(Error::file(dir, "expected a folder, found none"));
        }
        if dir.join("adapter_config.json").is_file() {
            return adapter::read(dir, options);
        }
        arch::read(dir, options)
    }

    /// All tensors in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The files that tensors are read from.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.folder.paths().collect()
    }

    /// Gives a tensor another type.
    ///
    /// # Errors
    /// A row that is no whole number of the format's blocks.
    pub fn retype(&mut self, tensor: usize, format: &'static pumex_quant::Format) -> Result<()> {
        let t = &mut self.tensors[tensor];
        let row = t.shape().last().copied().unwrap_or(1);
        if format.row_bytes(row).is_none() {
            let what = format!("tensor {}: expected rows of a multiple of {}, found {row}", t.name, format.block_len);
            return Err(Error::file(Path::new(&self.class), what));
        }
        t.kind = match format.ggml_id {
            0 => TensorType::F32,
            1 => TensorType::F16,
            30 => TensorType::Bf16,
            _ => TensorType::Format(format),
        };
        Ok(())
    }

    /// Bytes of tensor data.
    pub fn len_bytes(&self) -> u64 {
        self.tensors.iter().map(Tensor::len_bytes).sum()
    }

    /// Writes the file to `sink`, piece by piece in order. `progress` takes the bytes of tensor data that are done and says whether to go
    /// on.
    ///
    /// # Errors
    /// What the sink says, and [`Error::Stopped`].
    pub fn write(&self, sink: &mut Sink<'_>, progress: &mut dyn FnMut(u64) -> bool) -> Result<ConversionReport> {
        let entries: Vec<TensorHeader<'_>> = self
            .tensors
            .iter()
            .map(|t| TensorHeader { name: &t.name, shape: t.shape(), type_id: t.type_id(), len_bytes: t.len_bytes() })
            .collect();
        let mut report = ConversionReport::default();
        let (mut done, mut padding) = (0u64, 0u64);
        let head = header(&self.meta, &entries);
        sink(&head).map_err(Error::Sink)?;
        for tensor in &self.tensors {
            let row = tensor.shape().last().copied().unwrap_or(1).max(1);
            let (chunk, rows) = ((CHUNK_WEIGHTS / row).max(1), tensor.rows());
            for first in (0..rows).step_by(chunk) {
                let bytes = self.rows(tensor, first, chunk.min(rows - first));
                sink(&bytes).map_err(Error::Sink)?;
                done += bytes.len() as u64;
                if !progress(done) {
                    return Err(Error::Stopped);
                }
            }
            let pad = tensor.len_bytes().next_multiple_of(ALIGNMENT) - tensor.len_bytes();
            sink(&vec![0; pad as usize]).map_err(Error::Sink)?;
            padding += pad;
            report.weights += tensor.weights();
        }
        report.bytes = head.len() as u64 + done + padding;
        Ok(report)
    }

    /// Rows of a tensor as they stand in the file.
    fn rows(&self, tensor: &Tensor, first: usize, count: usize) -> Vec<u8> {
        let weights = match &tensor.content {
            Content::Weights(weights) => weights,
            Content::Blocks(blocks) => {
                let mut out = Vec::with_capacity(count * blocks.row_bytes());
                blocks.put(&self.folder, first, count, &mut out);
                return out;
            }
        };
        let row = weights.row();
        let mut floats = vec![0f32; count * row];
        weights.read(&self.folder, first * row, &mut floats);
        let part = (64usize << 10).div_ceil(row.max(1)).max(1) * row.max(1);
        let ones = match tensor.kind {
            TensorType::Format(_) => vec![1f32; part.min(floats.len())],
            _ => Vec::new(),
        };
        let parts: Vec<Vec<u8>> = floats
            .par_chunks(part)
            .map(|floats| {
                let mut out = Vec::with_capacity(floats.len() * 4);
                tensor.kind.encode(floats, &ones, &mut out);
                out
            })
            .collect();
        parts.concat()
    }

    /// The value of a key that is a whole number, or the first of a list of them.
    pub fn number(&self, key: &str) -> Option<u32> {
        match self.meta.get(key)? {
            MetaValue::U32(v) => Some(*v),
            MetaValue::I32(v) => u32::try_from(*v).ok(),
            MetaValue::I32s(list) => list.first().and_then(|v| u32::try_from(*v).ok()),
            MetaValue::U32s(list) => list.first().copied(),
            _ => None,
        }
    }
}
