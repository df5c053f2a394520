//! Hugging Face folders as GGUF files.
//!
//! A folder (`config.json`, safetensors, a tokenizer's files) becomes a [`Conversion`]: metadata and tensors in the order of the
//! file, which [`Conversion::write`] streams to a sink, in chunks of rows. Files in F32, F16, BF16 and Q8_0 are equal to the
//! byte with those of llama.cpp's `convert_hf_to_gguf.py`; a caller that gives tensors other types ([`Conversion::retype`]) gets
//! them encoded by `pumex-quant`. It knows no device, no command line and no file to write to.

mod adapter;
mod arch;
mod config;
mod content;
mod conversion;
mod error;
mod folder;
mod general;
mod json;
mod map;
mod metadata;
mod model_card;
mod name_parts;
mod types;
mod vocab;

pub use arch::{families, Family};
pub use conversion::{Conversion, ConversionOptions, ConversionReport, Sink, Tensor};
pub use error::{Error, Result};
pub use metadata::{Meta, MetaValue};
pub use types::{FileType, TensorType};
