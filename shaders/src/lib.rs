//! Committed SPIR-V and the kernel table. Knows no Vulkan API.
//!
//! The archives under `spirv/` are what `tools/shaders` makes of `glsl/`; CI proves it.
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

/// A number of all modules: FNV-1a over the words of their archives. Others have another.
pub fn fingerprint() -> u64 {
    let add = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let of = |hash: u64, archive: &&[u8]| {
        archive.chunks(8).fold(add(hash, archive.len() as u64), |hash, bytes| add(hash, word(bytes)))
    };
    ARCHIVES.iter().fold(0xcbf2_9ce4_8422_2325, of)
}

/// Names of all modules, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    entries().keys().copied()
}
