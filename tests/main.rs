//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]
mod cli;
mod draw;
mod gguf;
mod kernels;
mod layout;
mod plans;
mod profile;
mod quantize;
mod reference;
mod sample;
mod synthetic;
mod tables;
mod text;
mod upload;
mod util;
mod vulkan;
