//! Committed SPIR-V and the kernel table. Knows no Vulkan API.
//!
//! The archives under `spirv/` are what `tools`' `build-shaders` makes of `glsl/`; CI proves it.
#![forbid(unsafe_code)]

pub mod archive;
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
pub use source::source;
pub use stage::Stage;

use modules::ARCHIVES;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A module of an archive, and its SPIR-V once it was wanted.
struct Entry {
    packed: &'static [u8],
    spirv: OnceLock<Option<Vec<u8>>>,
}

fn entries() -> &'static BTreeMap<&'static str, Entry> {
    static ENTRIES: OnceLock<BTreeMap<&'static str, Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let all = ARCHIVES.iter().filter_map(|a| archive::read(a)).flatten();
        all.map(|(name, packed)| (name, Entry { packed, spirv: OnceLock::new() })).collect()
    })
}

/// SPIR-V of a module: a kernel's name, with `.STEM` of the weight format if the kernel has one per format. It is unpacked when
/// it is first asked for, and kept.
pub fn module(name: &str) -> Option<&'static [u8]> {
    let entry = entries().get(name)?;
    entry.spirv.get_or_init(|| archive::unpack(entry.packed)).as_deref()
}

/// Names of all modules, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    entries().keys().copied()
}
