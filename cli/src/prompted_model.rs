//! What commands that read a prompt into a model have in common: their flags.

use super::adapters::AdapterArgs;
use super::media::MediaArgs;
use super::options::{EngineArgs, ModelArgs};
use super::prompt_source::PromptArgs;
use super::session;
use pumex_gguf::{Gguf, Result};

/// A model, how it runs, and a prompt for it.
#[derive(clap::Args)]
pub struct PromptedModelArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub adapters: AdapterArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub media: MediaArgs,
    #[command(flatten)]
    pub prompt: PromptArgs,
}

impl PromptedModelArgs {
    /// Opens the model with its adapters.
    ///
    /// # Errors
    /// No such model, or an adapter that is none of it.
    pub fn open(&self) -> Result<Gguf> {
        self.adapters.attach(session::open(&self.model)?)
    }
}
