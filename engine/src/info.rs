//! What a model is, in a line, for tables and `inspect`.

use pumex_gguf::{Gguf, Result};
use pumex_model::quantize::recipe;
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
    /// The model in llama-bench's words, for instance `llama 8B Q4_K - Medium`.
    pub description: String,
    /// Context the model was trained for; 0 if the file does not say.
    pub n_ctx_train: u32,
}

/// Reads the facts off the file.
///
/// # Errors
/// A file without an architecture, or with keys of wrong types.
pub fn model_info(gguf: &Gguf) -> Result<ModelInfo> {
    let arch = gguf.meta().arch()?.to_string();
    let n_params: u64 = gguf.own_tensors().iter().map(|t| t.elements()).sum();
    let size_bytes = gguf.own_tensors().iter().map(|t| t.len_bytes).sum();
    let size = match gguf.meta().opt_str("general.size_label")? {
        Some(label) => label.to_string(),
        None if n_params >= 1_000_000_000 => format!("{:.1}B", n_params as f64 / 1e9),
        None => format!("{:.1}M", n_params as f64 / 1e6),
    };
    let file_type = gguf.meta().opt_u32("general.file_type")?;
    let kind = file_type.and_then(recipe::of_file_type).map_or("mixed", |recipe| recipe.label);
    let n_ctx_train = gguf.meta().opt_u32(&format!("{arch}.context_length"))?.unwrap_or(0);
    Ok(ModelInfo { description: format!("{arch} {size} {kind}"), arch, n_params, size_bytes, n_ctx_train })
}
