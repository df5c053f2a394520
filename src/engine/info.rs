//! What a model is, in a line, for tables and `inspect`.

use crate::gguf::Gguf;
use crate::Result;
use serde::Serialize;

/// Facts about a model that need no device.
#[derive(Clone, Debug, Serialize)]
pub struct ModelInfo {
    /// `general.architecture`.
    pub arch: String,
    /// Weights.
    pub n_params: u64,
    /// Bytes of all tensors.
    pub size_bytes: u64,
    /// As llama-bench prints it, for instance `llama 8B Q4_K - Medium`.
    pub description: String,
    /// Context the model was trained for; 0 if the file does not say.
    pub n_ctx_train: u32,
}

/// `general.file_type` → name in llama.cpp's words.
const FILE_TYPES: &[(u32, &str)] = &[
    (0, "all F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K - Medium"),
    (11, "Q3_K - Small"),
    (12, "Q3_K - Medium"),
    (13, "Q3_K - Large"),
    (14, "Q4_K - Small"),
    (15, "Q4_K - Medium"),
    (16, "Q5_K - Small"),
    (17, "Q5_K - Medium"),
    (18, "Q6_K"),
    (19, "IQ2_XXS - 2.0625 bpw"),
    (20, "IQ2_XS - 2.3125 bpw"),
    (21, "Q2_K - Small"),
    (22, "IQ3_XS - 3.3 bpw"),
    (23, "IQ3_XXS - 3.0625 bpw"),
    (24, "IQ1_S - 1.5625 bpw"),
    (25, "IQ4_NL - 4.5 bpw"),
    (26, "IQ3_S - 3.4375 bpw"),
    (27, "IQ3_S mix - 3.66 bpw"),
    (28, "IQ2_S - 2.5 bpw"),
    (29, "IQ2_M - 2.7 bpw"),
    (30, "IQ4_XS - 4.25 bpw"),
    (31, "IQ1_M - 1.75 bpw"),
    (32, "BF16"),
    (36, "TQ1_0 - 1.69 bpw ternary"),
    (37, "TQ2_0 - 2.06 bpw ternary"),
    (38, "MXFP4 MoE"),
    (39, "NVFP4"),
    (40, "Q1_0"),
    (41, "Q2_0"),
];

/// Reads the facts off the file.
///
/// # Errors
/// A file without an architecture, or with keys of wrong types.
pub fn model_info(gguf: &Gguf) -> Result<ModelInfo> {
    let arch = gguf.meta().arch()?.to_string();
    let n_params: u64 = gguf.tensors().iter().map(|t| t.elements()).sum();
    let size_bytes = gguf.tensors().iter().map(|t| t.len_bytes).sum();
    let size = match gguf.meta().opt_str("general.size_label")? {
        Some(label) => label.to_string(),
        None if n_params >= 1_000_000_000 => format!("{:.1}B", n_params as f64 / 1e9),
        None => format!("{:.1}M", n_params as f64 / 1e6),
    };
    let file_type = gguf.meta().opt_u32("general.file_type")?;
    let kind = FILE_TYPES.iter().find(|(id, _)| Some(*id) == file_type).map_or("mixed", |(_, name)| name);
    let n_ctx_train = gguf.meta().opt_u32(&format!("{arch}.context_length"))?.unwrap_or(0);
    Ok(ModelInfo { description: format!("{arch} {size} {kind}"), arch, n_params, size_bytes, n_ctx_train })
}
