//! Families that are the shared decoder as it is: what the tensors of their files say is all that tells them from each other.
//!
//! | architecture | what it is |
//! |---|---|
//! | `llama` | Llama 1 to 3.x, Mixtral and models of their shape: RMS norm, GQA with neighbour RoPE, SwiGLU or experts |
//! | `internlm2`, `xverse` | InternLM 2 and XVERSE: llama's shape |
//! | `chatglm` | ChatGLM 3 and GLM 4 of 2024: one product for q, k and v and one for gate and up; part of each head rotates |
//! | `deci` | Deci and Nemotron Super: layers differ, and some lack attention or the feed-forward block |
//! | `qwen2` | Qwen 2 and 2.5: halves of heads rotate, as in all below; biases of q, k and v |
//! | `qwen3`, `qwen3moe` | Qwen 3: an RMS norm on every head of q and k before RoPE |
//! | `bitnet` | BitNet b1.58: a norm more inside each block |
//! | `exaone` | EXAONE 3 |
//! | `openelm` | OpenELM: heads and widths differ by layer; q and k are normed |
//! | `pangu-embedded` | Pangu Embedded: biases |
//! | `phi3`, `phimoe` | Phi 3, 3.5, 4 and Phi-MoE: one product for q, k and v and one for gate and up; longrope |
//! | `orion` | Orion: norms by mean and deviation |
//!
//! Biases and frequency factors (`rope_freqs.weight`) are optional in all of them, and the output is tied to the embedding where
//! `output.weight` is missing.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// Llama's shape, whose neighbours rotate.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn llama(gguf: &Gguf) -> Result<Plan> {
    Family::llama(gguf)?.plan(gguf)
}

/// Llama's shape, whose halves of heads rotate.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn neox(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.plan(gguf)
}

/// Llama's shape, whose halves of heads rotate, with norms by mean and deviation.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn layer_norm(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf)?.layer_norm().plan(gguf)
}
