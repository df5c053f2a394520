//! Committed SPIR-V and the kernel table. Knows no Vulkan API.
//!
//! The modules under `spirv/` are what `tools`' `build-shaders` makes of `glsl/`; CI proves it.
#![forbid(unsafe_code)]

pub mod block;
pub mod constants;
pub mod kernels;
#[rustfmt::skip]
mod modules;
pub mod push;
mod source;
pub mod stage;
pub mod step;

pub use kernels::{Kernel, KERNELS};
pub use modules::MODULES;
pub use source::source;
pub use stage::Stage;

/// SPIR-V of a module: a kernel's name, with `.STEM` of the weight format if the kernel has one per format.
pub fn module(name: &str) -> Option<&'static [u8]> {
    MODULES.binary_search_by_key(&name, |(n, _)| n).ok().map(|i| MODULES[i].1)
}
