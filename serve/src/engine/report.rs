//! What an engine tells of itself.

use super::{Pooling, Timings};
use serde_json::Value;
use std::sync::Arc;

/// Whether requests are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Yes.
    Ok,
    /// Not yet: a model is being loaded, or the engine comes up again.
    Loading,
    /// No more: the server stops.
    Stopping,
    /// No: why.
    Failed(String),
}

/// Where a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ModelState {
    Unloaded,
    Loading,
    Loaded,
    Sleeping,
    Failed,
}

/// How requests choose among several models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Most models that are loaded at once.
    pub most: usize,
    /// A request loads the model that it names.
    pub autoload: bool,
}

/// Something that happened to models.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelChange {
    /// A model is somewhere else.
    State {
        /// Its name.
        model: String,
        /// Where it is now.
        state: ModelState,
        /// Why it failed, where it did.
        failure: Option<String>,
        /// What it is, where it was loaded.
        properties: Option<Arc<ModelProperties>>,
    },
    /// A model's file is gone.
    Removed {
        /// Its name.
        model: String,
    },
    /// There are other models than before.
    Reloaded,
}

/// A model that requests may name.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its name, by which answers call it.
    pub name: String,
    /// Other names, which requests may use.
    pub aliases: Vec<String>,
    /// Words of the user's.
    pub tags: Vec<String>,
    /// Where it is.
    pub state: ModelState,
    /// Why it could not be loaded or does not work, where that is so.
    pub failure: Option<String>,
    /// Its file, where it has one.
    pub path: Option<String>,
    /// Seconds since 1970 of its file.
    pub created: u64,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// What is known of it, where it was loaded once.
    pub properties: Option<Arc<ModelProperties>>,
}

impl Offer {
    /// Whether requests may call it so.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// What a model is and how it was loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelProperties {
    /// Its name.
    pub name: String,
    /// Its file's path, as it was given.
    pub path: String,
    /// `general.architecture`, as `llama`.
    pub architecture: String,
    /// Type of most weights, as `Q4_K_M`.
    pub file_type: String,
    /// Weights in all.
    pub n_params: u64,
    /// Bytes of all tensors.
    pub n_bytes: u64,
    /// Ids in the vocabulary.
    pub n_vocab: usize,
    /// Kind of the vocabulary, as `BPE`.
    pub vocab_type: String,
    /// Width of a row.
    pub n_embd: usize,
    /// Positions it was trained for.
    pub n_ctx_train: usize,
    /// Positions that one slot may hold.
    pub n_ctx: usize,
    /// Slots: requests that run at once.
    pub n_slots: usize,
    /// The chat template, where it has one.
    pub chat_template: Option<String>,
    /// Why it cannot be used, where that is so.
    pub chat_template_error: Option<String>,
    /// Whether the template writes functions and reasoning.
    pub tools: bool,
    #[allow(missing_docs)]
    pub reasoning: bool,
    /// Whether it takes pictures, and sounds.
    pub vision: bool,
    #[allow(missing_docs)]
    pub audio: bool,
    /// Texts of the tokens that begin and end texts.
    pub bos_token: String,
    #[allow(missing_docs)]
    pub eos_token: String,
    /// Whether it gives vectors rather than text, pooled so.
    pub embeds: Option<Pooling>,
    /// Whether it can fill gaps.
    pub infills: bool,
    /// What requests get that ask for nothing, under llama.cpp's names (`default_generation_settings.params`).
    pub default_settings: Value,
    /// One line on the device.
    pub device: String,
    /// `model_info` of Ollama's `/api/show`: the file's metadata but its long arrays.
    pub metadata: Value,
}

/// What became of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingResult {
    /// One vector, or one for each token where nothing is pooled, `[vectors][width]`.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the text.
    pub tokens: usize,
}

/// An adapter that requests may use.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Adapter {
    pub id: usize,
    pub path: String,
    pub scale: f32,
}

/// What a slot does.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotStatus {
    /// Its number.
    pub id: usize,
    /// Positions it may hold.
    pub n_ctx: usize,
    /// Whether a request is at work in it.
    pub busy: bool,
    /// Number of the request, where one is or was.
    pub request: Option<u64>,
    /// Whose it is: a [`super::Holder`]'s key.
    pub key: String,
    /// Its options; none if there was none yet.
    pub settings: Option<Value>,
    /// Tokens it holds.
    pub held: usize,
    /// Tokens of the prompt, and those of them that are computed.
    pub prompt_tokens: usize,
    #[allow(missing_docs)]
    pub prompt_done: usize,
    /// Tokens generated, and how many may still come; none: no limit.
    pub generated: usize,
    #[allow(missing_docs)]
    pub remaining: Option<usize>,
    /// Its times so far.
    pub timings: Timings,
}

/// Counters since the start, and gauges. Seconds are of the model's work, not of the queue.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Metrics {
    /// Tokens of prompts that were computed, and those that were found in the cache.
    pub prompt_tokens: u64,
    pub prompt_tokens_cached: u64,
    pub prompt_seconds: f64,
    pub predicted_tokens: u64,
    pub predicted_seconds: f64,
    /// Steps of the model, and the sum over them of sequences at work.
    pub steps: u64,
    pub busy_slot_steps: u64,
    /// Seconds that steps took.
    pub step_seconds: f64,
    /// Most positions that a sequence held.
    pub n_tokens_max: u64,
    pub drafts: u64,
    pub draft_tokens: u64,
    pub draft_accepted: u64,
    /// By position in the draft.
    pub draft_accepted_at: Vec<u64>,
    /// Requests that ended: well, cancelled, failed, refused for a full queue.
    pub requests_done: u64,
    pub requests_cancelled: u64,
    pub requests_failed: u64,
    pub requests_refused: u64,
    pub preemptions: u64,
    /// Gauges.
    pub requests_running: u64,
    pub requests_waiting: u64,
    pub blocks_used: u64,
    pub blocks_cached: u64,
    pub blocks_total: u64,
}
