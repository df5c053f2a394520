//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used)]
mod gguf;
mod text;
mod util;
