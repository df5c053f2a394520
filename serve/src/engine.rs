//! What the HTTP side asks of an engine.
//!
//! An [`Engine`] has models, of which a [`Model`] is one that is loaded. Its methods may block for as long as their documentation says;
//! those that may do so for more than a moment are called where blocking is allowed.

mod event;
mod library;
mod media;
mod report;
mod request;

pub use event::{Event, Finish, FinishReason, GeneratedToken, Phase, Timings, TokenLogprob};
pub use library::{FetchedModel, Library};
pub use media::{Medium, MediumKind, MEDIA_MARK};
pub use report::{
    Adapter, EmbeddingResult, Health, Metrics, ModelChange, ModelProperties, ModelState, Offer, Router, SlotStatus,
};
pub(crate) use request::WeakSwitch;
pub use request::{
    Chat, Constraint, Embed, Generate, Holder, Pooling, Priority, Prompt, PromptPart, Reasoning, RequestSwitch, Rerank,
    Sampling, ToolChoice,
};

use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, oneshot};

/// What the events of a request come on. A request whose channel is full waits until there is room; one whose receiver is gone is
/// cancelled within one step.
pub type EventSender = mpsc::Sender<Event>;

/// Where vectors of each text go. Nothing is computed for a receiver that is gone.
pub type VectorSender = oneshot::Sender<Result<Vec<EmbeddingResult>, Refusal>>;

/// Where a score of each text goes, and how many tokens they were together.
pub type ScoreSender = oneshot::Sender<Result<(Vec<f32>, usize), Refusal>>;

/// Why something was refused or failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What sort of failure.
    pub kind: RefusalKind,
    /// One sentence, with expected and found.
    pub message: String,
    /// The field of the request, where it is one's fault.
    pub field: Option<String>,
    /// Tokens of the prompt and of the context, where the one does not fit the other.
    pub tokens: Option<(usize, usize)>,
}

/// Sorts of refusals, from which each API makes a status and a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request is wrong.
    Invalid,
    /// The prompt is longer than the context.
    ContextExceeded,
    /// There is no such model, slot or file.
    NotFound,
    /// This engine or model cannot do that.
    Unsupported,
    /// The queue is full.
    Busy,
    /// The model is being loaded, or the server is stopping.
    Unavailable,
    /// The engine failed; it may come up again.
    Failed,
}

/// Everything behind the HTTP side.
pub trait Engine: Send + Sync + 'static {
    /// Whether requests are served. Never blocks.
    fn health(&self) -> Health;

    /// The models that requests may name, loaded or not, in the order in which they were given. Never blocks.
    fn offers(&self) -> Vec<Offer>;

    /// The model of that name or alias, loaded if it was not; none stands for the only or first one. Blocks while it is loaded.
    ///
    /// # Errors
    /// No such model; a file that cannot be loaded; too little memory.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Refusal>;

    /// The model of that name or alias if it is loaded already. Never blocks.
    fn awake(&self, name: Option<&str>) -> Option<Arc<dyn Model>>;

    /// The model if it is loaded, to look at it: this is no use that keeps it from sleep. Never blocks.
    fn find_loaded(&self, name: Option<&str>) -> Option<Arc<dyn Model>>;

    /// What a model that is not loaded counted when it was. Never blocks.
    fn past(&self, name: Option<&str>) -> Metrics;

    /// Unloads a model once its requests are over. Blocks until then. False if it was not loaded.
    ///
    /// # Errors
    /// No such model.
    fn unload(&self, name: &str) -> Result<bool, Refusal>;

    /// How requests choose among several models; none where there is one, and all names stand for it.
    fn router(&self) -> Option<Router>;

    /// What happens to models from now on.
    fn changes(&self) -> broadcast::Receiver<ModelChange>;

    /// Looks for models that came, changed or went. Those that are loaded stay as they are, unless `running`: then they are unloaded
    /// once their requests are over, and it blocks until then.
    fn rescan(&self, running: bool);

    /// The files of models, where requests may change them; none where they may not. Never blocks.
    fn library(&self) -> Option<Arc<dyn Library>> {
        None
    }

    /// From now on refuses new requests as unavailable; those that run go on. Never blocks.
    fn drain(&self);

    /// Ends all requests, each with an error, and frees everything. Blocks for about a step.
    fn stop(&self);
}

/// A model that is loaded, for as long as it is held: one is unloaded once nobody holds it and its requests are over.
pub trait Model: Send + Sync + 'static {
    /// What it is and how it was loaded. Never blocks.
    fn properties(&self) -> &ModelProperties;

    /// Queues a request, or refuses it at once: what is wrong with it is found here, before the first event. Tokenizing, templates and
    /// grammars are worked on here: blocks for as long as these take. Each of its `n` answers ends in [`Event::Finished`] or, all
    /// together, in [`Event::Failed`]. Gives what is not done as the request says, though it is answered.
    ///
    /// # Errors
    /// Whatever is wrong with the request; a full queue.
    fn generate(&self, request: Generate, events: EventSender) -> Result<Vec<String>, Refusal>;

    /// The text that the chat template makes of a request, and how many tokens it is.
    ///
    /// # Errors
    /// The template's refusal.
    fn render(&self, chat: &Chat) -> Result<(String, usize), Refusal>;

    /// Ids of a text: with those that stand at the beginning and end of every text, and special tokens read out of it, if so asked.
    ///
    /// # Errors
    /// Text that the vocabulary cannot hold.
    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>, Refusal>;

    /// The bytes of each id.
    ///
    /// # Errors
    /// Ids that are not in the vocabulary.
    fn pieces(&self, ids: &[u32]) -> Result<Vec<Vec<u8>>, Refusal>;

    /// The text of ids.
    ///
    /// # Errors
    /// Ids that are not in the vocabulary.
    fn detokenize(&self, ids: &[u32]) -> Result<String, Refusal>;

    /// Queues texts for their vectors, or refuses them at once. Tokenizing is worked on here: blocks for as long as that takes.
    ///
    /// # Errors
    /// A model that gives none, a text that is too long, a full queue.
    fn embed(&self, request: &Embed, reply: VectorSender) -> Result<(), Refusal>;

    /// Queues texts for a score of each for the query, or refuses them at once.
    ///
    /// # Errors
    /// As [`Model::embed`]; a model that has no classifier.
    fn rerank(&self, request: &Rerank, reply: ScoreSender) -> Result<(), Refusal>;

    /// What each slot does; of those that others use, no more than whether they are at work. Never blocks.
    fn slots(&self, whose: &Holder) -> Vec<SlotStatus>;

    /// Writes what an idle slot holds to a file of that name in the folder for it; gives tokens and bytes. Blocks.
    ///
    /// # Errors
    /// No folder was given, no such slot, a slot at work or one that holds nothing of theirs, a name that is a path, what the file
    /// system says.
    fn save_slot(&self, slot: usize, name: &str, whose: &Holder) -> Result<(usize, u64), Refusal>;

    /// Reads such a file into a slot; gives tokens and bytes. Blocks.
    ///
    /// # Errors
    /// As [`Model::save_slot`]; a file of another model or a damaged one.
    fn restore_slot(&self, slot: usize, name: &str, whose: &Holder) -> Result<(usize, u64), Refusal>;

    /// Empties an idle slot; gives how many tokens it held.
    ///
    /// # Errors
    /// No such slot, a slot at work or one that holds something of others.
    fn erase_slot(&self, slot: usize, whose: &Holder) -> Result<usize, Refusal>;

    /// The adapters that requests may use, with the scales that stand where a request of theirs names none.
    fn adapters(&self, whose: &Holder) -> Vec<Adapter>;

    /// Sets those scales for their requests, by number; adapters that are not named get 0.
    ///
    /// # Errors
    /// No such adapter, a scale that no adapter may have.
    fn set_adapters(&self, scales: &[(usize, f32)], whose: &Holder) -> Result<(), Refusal>;

    /// Counters and gauges. Never blocks.
    fn metrics(&self) -> Metrics;
}
