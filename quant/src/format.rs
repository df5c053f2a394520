//! What a format is: its ids, sizes, decoder and finiteness check.

use crate::codes::{Codes, SoaPart};

/// Names a row of the format table: stable, cheap to compare and to key kernels with. In the order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum FormatId {
    F32,
    F16,
    Bf16,
    Q1_0,
    Q2_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
    Iq1S,
    Iq1M,
    Iq2Xxs,
    Iq2Xs,
    Iq2S,
    Iq3Xxs,
    Iq3S,
    Iq4Nl,
    Iq4Xs,
    Tq1_0,
    Tq2_0,
    Mxfp4,
    Nvfp4,
    Iq1SExpanded,
    Iq1MExpanded,
    Iq3SExpanded,
}

/// A part of a block that kernels read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockField {
    /// Its name in shaders.
    pub name: &'static str,
    /// Byte in the block.
    pub at: usize,
    /// Bytes.
    pub bytes: usize,
}

impl BlockField {
    /// A field of `bytes` bytes from byte `at` on.
    pub const fn new(name: &'static str, at: usize, bytes: usize) -> BlockField {
        BlockField { name, at, bytes }
    }
}

/// A part of what the structure of arrays has of a block: a field, or codes in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the field.
    pub name: &'static str,
    /// Byte in the block, or among the codes.
    pub at: usize,
    /// Bytes.
    pub bytes: usize,
    /// Whether it is of the codes.
    pub codes: bool,
}

/// One weight format.
#[derive(Debug)]
pub struct Format {
    /// The row's name in code.
    pub id: FormatId,
    /// ggml's numeric tensor type.
    pub ggml_id: u32,
    /// The name GGUF tools print, for instance `Q4_K`.
    pub name: &'static str,
    /// The file stem shared by `quant/src`, `shaders/glsl/quant` and the compiled modules.
    pub stem: &'static str,
    /// Weights per block.
    pub block_len: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// What a block consists of, widest reads first: the order of the structure of arrays, too, if there are no `codes`. Empty for floats.
    pub fields: &'static [BlockField],
    /// Codes that lie in another order in a structure of arrays than in blocks, if any do.
    pub codes: Option<Codes>,
    /// Decodes one block: `block_bytes` bytes → `block_len` weights, exactly.
    pub decode: fn(&[u8], &mut [f32]),
    /// Encodes one block: `block_len` finite weights and how much each one's squared error counts → `block_bytes` bytes.
    pub encode: fn(&[f32], &[f32], &mut [u8]),
    /// Index of the first block, of so many bytes each, with a scale or value that is NaN or infinite.
    pub first_bad: fn(&[u8], usize) -> Option<usize>,
}

impl Format {
    /// Bits per weight.
    pub fn bits(&self) -> f32 {
        8.0 * self.block_bytes as f32 / self.block_len as f32
    }

    /// Bytes of a row of `len` weights, if `len` is a whole number of blocks and the size fits.
    pub fn row_bytes(&self, len: usize) -> Option<usize> {
        if !len.is_multiple_of(self.block_len) {
            return None;
        }
        (len / self.block_len).checked_mul(self.block_bytes)
    }

    /// What the structure of arrays consists of, in order.
    pub fn parts(&self) -> Vec<Part> {
        let of_field = |f: &BlockField| Part { name: f.name, at: f.at, bytes: f.bytes, codes: false };
        let Some(codes) = &self.codes else { return self.fields.iter().map(of_field).collect() };
        let mut used = 0;
        let part = |plane: &SoaPart| match *plane {
            SoaPart::Field(name) => self.fields.iter().find(|f| f.name == name).map(of_field),
            SoaPart::Codes(name, bytes) => {
                used += bytes;
                Some(Part { name, at: used - bytes, bytes, codes: true })
            }
        };
        codes.soa.iter().filter_map(part).collect()
    }

    /// Bytes that a structure of arrays has of a block.
    pub fn soa_block_bytes(&self) -> usize {
        if self.fields.is_empty() {
            return self.block_bytes;
        }
        self.parts().iter().map(|p| p.bytes).sum()
    }

    /// Bytes of a row of `len` weights as a structure of arrays: a multiple of 16, so that every row starts where wide reads can.
    pub fn soa_bytes(&self, len: usize) -> usize {
        (len / self.block_len * self.soa_block_bytes()).next_multiple_of(16)
    }

    /// A row of blocks as a structure of arrays: of the first part that of all blocks, then of the next. Floats stay as they are.
    pub fn soa(&self, row: &[u8]) -> Vec<u8> {
        if self.fields.is_empty() {
            return row.to_vec();
        }
        let len = row.len() / self.block_bytes * self.block_len;
        let mut out = Vec::with_capacity(self.soa_bytes(len));
        for part in self.parts() {
            for block in row.chunks_exact(self.block_bytes) {
                match &self.codes {
                    Some(codes) if part.codes => {
                        out.extend((part.at..part.at + part.bytes).map(|b| codes.byte(block, b)));
                    }
                    _ => out.extend(&block[part.at..][..part.bytes]),
                }
            }
        }
        out.resize(self.soa_bytes(len), 0);
        out
    }

    /// Decodes whole blocks: `out.len()` weights from `bytes`.
    ///
    /// # Panics
    /// If the two lengths do not describe the same number of blocks.
    pub fn decode_row(&self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(
            bytes.len() / self.block_bytes,
            out.len() / self.block_len,
            "a row of {} has equal blocks on both sides",
            self.name
        );
        for (b, o) in bytes.chunks_exact(self.block_bytes).zip(out.chunks_exact_mut(self.block_len)) {
            (self.decode)(b, o);
        }
    }

    /// Encodes whole blocks: `x` and as many weights of their squared errors → `out`.
    ///
    /// # Panics
    /// If the lengths do not describe the same number of blocks.
    pub fn encode_row(&self, x: &[f32], weight: &[f32], out: &mut [u8]) {
        let blocks = x.len() / self.block_len;
        assert!(
            blocks == out.len() / self.block_bytes && weight.len() == x.len(),
            "a row has equal blocks on all sides"
        );
        let x = x.chunks_exact(self.block_len).zip(weight.chunks_exact(self.block_len));
        for ((x, weight), b) in x.zip(out.chunks_exact_mut(self.block_bytes)) {
            (self.encode)(x, weight, b);
        }
    }

    /// Index of the first block with a scale or value that is NaN or infinite.
    pub fn first_non_finite(&self, bytes: &[u8]) -> Option<usize> {
        (self.first_bad)(bytes, self.block_bytes)
    }
}
