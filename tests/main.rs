//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]
//cli
mod gguf;
mod plans;
mod reference;
//sample
mod tables;
//text
mod util;
mod vulkan;
