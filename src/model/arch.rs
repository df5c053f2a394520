//! The architectures, one line each.

pub mod llama;
pub mod qwen3;
pub mod qwen3moe;

use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::Result;

/// A family of models.
pub struct Arch {
    /// Value of `general.architecture`.
    pub name: &'static str,
    /// File → plan.
    pub plan: fn(&Gguf) -> Result<Plan>,
}

/// Every architecture Pumex runs.
pub const ARCHS: &[Arch] = &[
    Arch { name: "llama", plan: llama::plan },
    Arch { name: "qwen3", plan: qwen3::plan },
    Arch { name: "qwen3moe", plan: qwen3moe::plan },
];

/// The architecture of that name.
pub fn find(name: &str) -> Option<&'static Arch> {
    ARCHS.iter().find(|a| a.name == name)
}
