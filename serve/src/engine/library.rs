//! Files of models, where requests may fetch and remove them.

use super::Refusal;
use serde_json::{Map, Value};

/// How far the fetching of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedModel {
    /// The file's name.
    pub file: String,
    /// Bytes of all files together; 0 where nobody says.
    pub total: u64,
    /// Bytes that are there.
    pub done: u64,
}

/// A folder of models that requests may change. All of it blocks.
pub trait Library: Send + Sync {
    /// Fetches a model by a name as Ollama's clients say it: of its registry, or behind `hf.co/` and `modelscope.cn/`. Tells how far
    /// it is; false ends it, and what came so far is kept for the next time.
    ///
    /// # Errors
    /// A name that is none; a host that cannot be reached or refuses; a full disk.
    fn pull(&self, name: &str, tell: &mut dyn FnMut(FetchedModel) -> bool) -> Result<(), Refusal>;

    /// Gives a model a second name, in place of what has it.
    ///
    /// # Errors
    /// No such model; a name that no model may have; what the file system says.
    fn copy(&self, from: &str, to: &str) -> Result<(), Refusal>;

    /// Makes a model of another one's weights, with `parameters`, `system` and `license` of its own.
    ///
    /// # Errors
    /// As [`Library::copy`].
    fn create(&self, name: &str, from: &str, said: &Map<String, Value>) -> Result<(), Refusal>;

    /// Removes a model's files.
    ///
    /// # Errors
    /// No such model; what the file system says.
    fn remove(&self, name: &str) -> Result<(), Refusal>;
}
