//! Requests, as plain data. Fields that are none take what the server was started with.

use super::Medium;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPart {
    /// Text, in which special tokens are read.
    Text(String),
    /// An id.
    Token(u32),
    /// A picture or a sound.
    Medium(Medium),
}

impl PromptPart {
    /// The text that it is; empty if it is none.
    pub(crate) fn text(&self) -> &str {
        match self {
            PromptPart::Text(text) => text,
            PromptPart::Token(_) | PromptPart::Medium(_) => "",
        }
    }

    /// The medium that it is, if it is one.
    pub fn medium(&self) -> Option<&Medium> {
        match self {
            PromptPart::Medium(medium) => Some(medium),
            PromptPart::Text(_) | PromptPart::Token(_) => None,
        }
    }
}

/// A conversation that a chat template makes a prompt of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chat {
    /// Messages in OpenAI's shape: objects with `role`, `content` (text, or text parts), `tool_calls`, `reasoning_content`, ...
    pub messages: Vec<Value>,
    /// Pictures and sounds, in the order of the messages' [marks](super::MEDIA_MARK).
    pub media: Vec<Medium>,
    /// Functions in OpenAI's shape: `{"type": "function", "function": {"name", "description", "parameters"}}`.
    pub tools: Vec<Value>,
    /// Which of them may or must be called.
    pub tool_choice: ToolChoice,
    /// Names of those that may be; none: all. The template is told of all.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether several may be called in one answer; none: as the template has it.
    pub parallel_tool_calls: Option<bool>,
    /// Whether the model's turn is opened; false continues the last message, if that is the assistant's.
    pub add_generation_prompt: bool,
    /// Goes on with the last message, which is the assistant's.
    pub continue_final_message: bool,
    /// More names for the template, `enable_thinking` and `reasoning_effort` among them.
    pub template_kwargs: Map<String, Value>,
    /// What becomes of reasoning.
    pub reasoning: Reasoning,
}

/// Which functions an answer may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any or none.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// That one.
    Function(String),
}

/// What becomes of reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// False: the model is kept from it where its template can do that.
    pub enabled: Option<bool>,
    /// Most tokens of it; none: as many as it takes.
    pub budget: Option<usize>,
    /// Leaves it within the text, with its marks (llama.cpp's `reasoning_format: none`); none: as the server has it.
    pub inline: Option<bool>,
}

/// Something that may be asked for while a request runs. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct RequestSwitch(Arc<AtomicBool>);

impl RequestSwitch {
    /// Asks for it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A reference to this switch that lasts as long as somebody else has it.
    pub(crate) fn weak(&self) -> WeakSwitch {
        WeakSwitch(Arc::downgrade(&self.0))
    }
}

impl PartialEq for RequestSwitch {
    fn eq(&self, other: &RequestSwitch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A switch that is gone with the request that it is for.
#[derive(Debug)]
pub(crate) struct WeakSwitch(Weak<AtomicBool>);

impl WeakSwitch {
    pub fn get(&self) -> Option<RequestSwitch> {
        self.0.upgrade().map(RequestSwitch)
    }
}

/// What a model is to go on from.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Text, ids and media, continued as they are; what stands at the beginning of every text is added if text comes first.
    Parts(Vec<PromptPart>),
    /// A conversation.
    Chat(Chat),
    /// What stands between two texts.
    Infill {
        /// Text before the gap.
        prefix: String,
        /// Text after it.
        suffix: String,
        /// Text that the gap begins with.
        prompt: String,
        /// Other files: name (or none) and text.
        extra: Vec<(Option<String>, String)>,
    },
}

impl Prompt {
    /// Its pictures and sounds, in order.
    pub fn media(&self) -> Vec<&Medium> {
        match self {
            Prompt::Parts(parts) => parts.iter().filter_map(PromptPart::medium).collect(),
            Prompt::Chat(chat) => chat.media.iter().collect(),
            Prompt::Infill { .. } => Vec::new(),
        }
    }
}

/// What answers are within.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// A GBNF grammar.
    Grammar(String),
    /// A JSON schema.
    Schema(Value),
    /// Any JSON object.
    JsonObject,
    /// A regular expression.
    Regex(String),
}

/// How ids are chosen; names, meanings and ranges are llama.cpp's. The engine checks ranges and names the field.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    pub top_k: Option<i32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub top_n_sigma: Option<f32>,
    pub typical_p: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub repeat_last_n: Option<i32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<i32>,
    pub dry_penalty_last_n: Option<i32>,
    pub dry_sequence_breakers: Option<Vec<String>>,
    pub mirostat: Option<u8>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
    pub adaptive_target: Option<f32>,
    pub adaptive_decay: Option<f32>,
    pub min_keep: Option<usize>,
    /// -1 or none: of the clock. Answer `i` of several takes this plus `i`.
    pub seed: Option<i64>,
    /// Names of the chain's steps, or one string of their letters.
    pub samplers: Option<Vec<String>>,
    /// Added to logits: a token by id or every token of a text; negative infinity bans (JSON's `false`).
    pub logit_bias: Vec<(PromptPart, f32)>,
    pub ignore_eos: Option<bool>,
}

/// Who holds the key that a request brought. What is kept for a request belongs to them: nobody else sees, uses or changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The key's number; empty where no key is needed, and all are one.
    pub key: String,
    /// Their folder among the saved slots; none where there is one for all.
    pub folder: Option<String>,
}

impl Holder {
    /// The [`Holder::key`] of a request's [`Generate::user`].
    pub fn key_of(user: &str) -> &str {
        user.split('/').next().unwrap_or_default()
    }
}

/// Which request goes first where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

/// A request for `n` answers to one prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// What is to be continued or answered.
    pub prompt: Prompt,
    /// Answers; they share the prompt's blocks.
    pub n: usize,
    /// Most tokens of an answer; none: until the context is full.
    pub max_tokens: Option<usize>,
    /// Tokens before which nothing that the model says ends an answer.
    pub min_tokens: usize,
    /// Ids that end an answer, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// Positions that the prompt and an answer may take together, where these are fewer than the slot's.
    pub context: Option<usize>,
    /// How many of the best ids are told at each position of the prompt, beside the one that stands there; none: nothing is.
    pub prompt_logprobs: Option<usize>,
    /// Most time of an answer after its first token that ends a line, milliseconds.
    pub max_predict_ms: Option<u64>,
    /// How ids are chosen.
    pub sampling: Sampling,
    /// Texts that end an answer and are not part of it.
    pub stop: Vec<String>,
    /// What answers are within; reasoning is not.
    pub constraint: Option<Constraint>,
    /// The field that a schema came in.
    pub constraint_field: &'static str,
    /// Ends reasoning, where the model is at it.
    pub end_reasoning: Option<RequestSwitch>,
    /// How many of the best ids are told with their log-probabilities at each position, beside the chosen one's; none: nothing is.
    pub logprobs: Option<usize>,
    /// Tells probabilities after the sampler's chain instead of those of the logits.
    pub post_sampling_probs: bool,
    /// Scales of adapters by number; none: as the server has them.
    pub adapters: Option<Vec<(usize, f32)>>,
    /// The slot to use; none: the one that fits best.
    pub slot: Option<usize>,
    /// Whether what slots hold of the prompt is used.
    pub cache_prompt: bool,
    /// Whether its answers are the same whoever is served beside it, and whatever is kept; none: as the server has it.
    pub deterministic: Option<bool>,
    /// Tokens at the start that stay when the context is full and the answer goes on; -1: the whole prompt.
    pub n_keep: i64,
    /// Tokens behind those that go then; 0: half of them.
    pub n_discard: usize,
    /// Sends [`Progress`](super::Event::Progress) while the prompt is computed.
    pub progress: bool,
    /// Whose request it is: users take turns, and share no cached prompt unless the server says so.
    pub user: Option<String>,
    /// Which goes first.
    pub priority: Priority,
}

impl Generate {
    /// Whether there is something to compile, which may take seconds.
    pub(crate) fn is_slow_to_read(&self) -> bool {
        self.constraint.is_some() || matches!(&self.prompt, Prompt::Chat(chat) if !chat.tools.is_empty())
    }

    /// A request with the defaults of everything but the prompt.
    pub fn new(prompt: Prompt) -> Generate {
        Generate {
            prompt,
            n: 1,
            max_tokens: None,
            min_tokens: 0,
            stop_ids: Vec::new(),
            context: None,
            prompt_logprobs: None,
            max_predict_ms: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            constraint: None,
            constraint_field: "",
            end_reasoning: None,
            logprobs: None,
            post_sampling_probs: false,
            adapters: None,
            slot: None,
            cache_prompt: true,
            deterministic: None,
            n_keep: 0,
            n_discard: 0,
            progress: false,
            user: None,
            priority: Priority::Normal,
        }
    }
}

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Pooling {
    None,
    Mean,
    Cls,
    Last,
    Rank,
}

/// Texts to make vectors of.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// Each a text of its own.
    pub inputs: Vec<Vec<PromptPart>>,
    /// Whether a text that is too long is cut at its end; else it is refused.
    pub truncate: bool,
    /// None: the model's.
    pub pooling: Option<Pooling>,
    /// Lengths: -1 as they are, 0 by the largest, 1 sum, 2 Euclid's, more: that norm (llama.cpp's `--embd-normalize`); none: 2, or -1
    /// where nothing is pooled.
    pub normalize: Option<i32>,
}

/// Texts to rank for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerank {
    /// What is sought.
    pub query: String,
    /// What is ranked.
    pub documents: Vec<String>,
}
