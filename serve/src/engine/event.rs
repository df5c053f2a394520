//! What comes back while a request is worked on.

use serde_json::Value;

/// One thing that happened. Events of one answer come in order; those of several answers are mixed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The request left the queue.
    Started {
        /// Slots of its answers, by the answer's number.
        slots: Vec<usize>,
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens of the prompt that were in the cache.
        cached_tokens: usize,
        /// All options as they are in force, under llama.cpp's names (`generation_settings`).
        settings: Value,
        /// The prompt's text.
        prompt: String,
        /// When.
        at: std::time::Instant,
    },
    /// So much of the prompt is computed.
    Progress {
        /// Tokens of the prompt.
        total: usize,
        /// Found in the cache.
        cached: usize,
        /// Computed or found so far.
        processed: usize,
        /// Since the request left the queue, milliseconds.
        ms: f64,
    },
    /// What is told of the prompt, before the first piece: its tokens, of which the first has no log-probability.
    Prompt {
        /// Tokens.
        tokens: Vec<GeneratedToken>,
    },
    /// More of an answer: text, and the tokens since the last piece.
    Piece {
        /// The answer's number.
        answer: usize,
        /// What it is part of.
        phase: Phase,
        /// Whole characters; may be empty where tokens wait for more.
        text: String,
        /// Tokens that this event brings, in order.
        tokens: Vec<GeneratedToken>,
    },
    /// A call of a function begins.
    CallStart {
        /// The answer's number.
        answer: usize,
        /// The call's number in the answer, from 0.
        call: usize,
        /// The function.
        name: String,
        /// The call's name; made up where the model gives none.
        id: String,
    },
    /// More of a call's arguments: the deltas together are a JSON object's text.
    CallArguments {
        /// The answer's number.
        answer: usize,
        /// The call.
        call: usize,
        /// Text.
        delta: String,
    },
    /// An answer is over.
    Finished {
        /// The answer's number.
        answer: usize,
        /// How it went.
        finish: Finish,
    },
    /// The request failed; no more events come.
    Failed(super::Refusal),
}

/// What a piece of text is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The answer.
    Content,
    /// Reasoning before or between.
    Reasoning,
    /// A call; the text came as [`Event::CallArguments`], the tokens come here.
    Call,
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedToken {
    /// Id.
    pub id: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its log-probability, where asked for.
    pub logprob: Option<f32>,
    /// The best ids with theirs, best first.
    pub top: Vec<TokenLogprob>,
}

/// An id with its log-probability.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TokenLogprob {
    pub id: u32,
    pub bytes: Vec<u8>,
    pub logprob: f32,
}

/// Why an answer is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    End,
    /// This stop text came.
    Stop(String),
    /// The answer has as many tokens as were asked for, or the time was up.
    Length,
    /// The context is full.
    ContextFull,
    /// The model calls functions.
    ToolCalls,
}

/// How an answer went.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why it is over.
    pub reason: FinishReason,
    /// Tokens of the prompt, of those found in the cache, of the answer, and of the answer's reasoning.
    pub prompt_tokens: usize,
    #[allow(missing_docs)]
    pub cached_tokens: usize,
    #[allow(missing_docs)]
    pub completion_tokens: usize,
    #[allow(missing_docs)]
    pub reasoning_tokens: usize,
    /// Whether a line break was generated.
    pub has_new_line: bool,
    /// Whether tokens were dropped because the context was full.
    pub truncated: bool,
    /// Positions that the slot holds now.
    pub held: usize,
    /// Times.
    pub timings: Timings,
}

/// Where an answer's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// In the queue, milliseconds.
    pub queue_ms: f64,
    /// Tokens of the prompt that were computed, and the time of that.
    pub prompt_tokens: usize,
    #[allow(missing_docs)]
    pub prompt_ms: f64,
    /// Tokens found in the cache.
    pub cached_tokens: usize,
    /// Tokens generated, and the time from the first to the last.
    pub predicted_tokens: usize,
    #[allow(missing_docs)]
    pub predicted_ms: f64,
    /// Tokens that a draft proposed, and those of them that stood; 0 without a draft.
    pub draft_tokens: usize,
    #[allow(missing_docs)]
    pub draft_accepted: usize,
}
