//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]

mod cli;
mod dispatches;
mod draw;
mod flash;
mod gguf;
mod goldens;
mod kernels;
mod layout;
mod megakernel;
mod passes;
mod plans;
mod profile;
mod quantize;
mod reference;
mod router;
mod runs;
mod sample;
mod session;
mod synthetic;
mod tables;
mod text;
mod upload;
mod util;
mod vulkan;
