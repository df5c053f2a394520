//! llama.cpp's own endpoints.

pub(crate) mod completion;
pub(crate) mod health;
pub(crate) mod infill;
pub(crate) mod lora;
pub(crate) mod metrics;
pub(crate) mod prompts;
pub(crate) mod props;
pub(crate) mod rerank;
pub(crate) mod router;
pub(crate) mod slots;
pub(crate) mod tokens;
