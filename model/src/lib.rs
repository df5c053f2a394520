//! A GGUF file → a checked model: architecture, configuration, every tensor accounted for, and the plan.

pub mod adapter;
pub mod pruning;
pub mod quantize;
pub mod synthetic;

pub mod adapted;
pub mod arch;
pub mod config;
pub mod decoder;
pub mod tensors;
pub mod weights;

use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::Plan;

/// Builds the plan of the model in `gguf`, with what is attached to it.
///
/// # Errors
/// `unknown_arch`, `bad_hparam` with the key, or all missing, misshapen and unused tensors at once.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let name = gguf.meta().arch()?;
    let Some(arch) = arch::find(name) else {
        let known: Vec<&str> = arch::ARCHS.iter().map(|a| a.name).collect();
        let what = format!("general.architecture: expected one of {}, found {name:?}", known.join(", "));
        return Err(Error::file(gguf.path(), "unknown_arch", what));
    };
    Ok(adapted::with_attached((arch.plan)(gguf)?, gguf))
}
