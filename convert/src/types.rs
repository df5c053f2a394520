//! Types of tensors and of files, and the bytes that rows of weights are.

use pumex_quant::{find, Format};

/// What a file is mostly of, as `convert_hf_to_gguf.py` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// Every tensor in F32.
    F32,
    /// Matrices in F16.
    F16,
    /// Matrices in BF16.
    Bf16,
    /// Matrices in Q8_0.
    Q8_0,
    /// F16 or BF16, as the first matrix has it.
    Auto,
}

impl FileType {
    /// The types by their names.
    pub const NAMES: [(&'static str, FileType); 5] = [
        ("F32", FileType::F32),
        ("F16", FileType::F16),
        ("BF16", FileType::Bf16),
        ("Q8_0", FileType::Q8_0),
        ("AUTO", FileType::Auto),
    ];

    /// The type of a name, upper or lower case.
    pub fn from_name(name: &str) -> Option<FileType> {
        FileType::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, t)| *t)
    }

    /// `general.file_type`; that of [`FileType::Auto`] is F16's.
    pub fn id(self) -> u32 {
        match self {
            FileType::F32 => 0,
            FileType::F16 | FileType::Auto => 1,
            FileType::Q8_0 => 7,
            FileType::Bf16 => 32,
        }
    }

    /// What matrices become.
    pub(crate) fn kind(self) -> TensorType {
        match self {
            FileType::F32 => TensorType::F32,
            FileType::F16 | FileType::Auto => TensorType::F16,
            FileType::Bf16 => TensorType::Bf16,
            FileType::Q8_0 => TensorType::Q8_0,
        }
    }
}

/// The type of a tensor's data.
#[derive(Clone, Copy, Debug)]
pub enum TensorType {
    /// 4 bytes a weight.
    F32,
    /// 2 bytes a weight.
    F16,
    /// 2 bytes a weight.
    Bf16,
    /// Blocks of 32, with codes by the scale before it is rounded to a half.
    Q8_0,
    /// By an encoder of `pumex-quant`.
    Format(&'static Format),
}

/// ggml's type id of MXFP4, whose blocks are copied and never encoded here.
const Q8_0: u32 = 8;

impl TensorType {
    /// The format's row.
    pub fn format(self) -> Option<&'static Format> {
        match self {
            TensorType::F32 => find(0),
            TensorType::F16 => find(1),
            TensorType::Bf16 => find(30),
            TensorType::Q8_0 => find(Q8_0),
            TensorType::Format(format) => Some(format),
        }
    }

    /// ggml's type id.
    pub fn id(self) -> u32 {
        self.format().map_or(0, |f| f.ggml_id)
    }

    /// Bytes of a row of `len` weights; none if that is no whole number of blocks.
    pub fn row_bytes(self, len: usize) -> Option<usize> {
        self.format()?.row_bytes(len)
    }

    /// Appends rows of weights as bytes.
    pub fn encode(self, weights: &[f32], ones: &[f32], out: &mut Vec<u8>) {
        match self {
            TensorType::F32 => weights.iter().for_each(|x| out.extend(x.to_le_bytes())),
            TensorType::F16 => weights.iter().for_each(|x| out.extend(half::f16::from_f32(*x).to_le_bytes())),
            TensorType::Bf16 => weights.iter().for_each(|x| out.extend(half::bf16::from_f32(*x).to_le_bytes())),
            TensorType::Q8_0 => weights.chunks_exact(32).for_each(|block| q8_0(block, out)),
            TensorType::Format(format) => {
                let start = out.len();
                out.resize(start + weights.len() / format.block_len * format.block_bytes, 0);
                format.encode_row(weights, &ones[..weights.len()], &mut out[start..]);
            }
        }
    }
}

/// A block of Q8_0 as ggml's reference has it: codes by the exact scale, which is rounded only where it is stored.
fn q8_0(block: &[f32], out: &mut Vec<u8>) {
    let largest = block.iter().fold(0f32, |m, x| m.max(x.abs()));
    let d = largest / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    out.extend(half::f16::from_f32(d).to_le_bytes());
    out.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
}
