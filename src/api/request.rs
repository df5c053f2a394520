//! What is asked of a model: a prompt or a conversation, and how it is answered.

use super::answer::{refusal_error, Answer, Reply};
use super::message::{Message, Tool};
use crate::server::Models;
use crate::Result;
use pumex_serve::engine::{
    Chat, Constraint, Engine, Generate, Medium, MediumKind, Prompt as Asked, PromptPart, Reasoning, Sampling,
    ToolChoice,
};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Parts of an answer that wait for a slow reader, before the request itself waits.
const EVENTS: usize = 256;

/// What a model continues: text, in which special tokens are read, ids, and pictures and sounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt(Vec<PromptPart>);

impl Prompt {
    /// The prompt with more text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Prompt {
        self.0.push(PromptPart::Text(text.into()));
        self
    }

    /// The prompt with a picture: the bytes of a file.
    #[must_use]
    pub fn image_bytes(self, bytes: Vec<u8>) -> Prompt {
        self.medium(MediumKind::Picture, bytes)
    }

    /// The prompt with a sound: the bytes of a file.
    #[must_use]
    pub fn audio_bytes(self, bytes: Vec<u8>) -> Prompt {
        self.medium(MediumKind::Sound, bytes)
    }

    fn medium(mut self, kind: MediumKind, bytes: Vec<u8>) -> Prompt {
        let field = format!("prompt/{}", self.0.len());
        self.0.push(PromptPart::Medium(Medium { kind, bytes: bytes.into(), max_tokens: None, field }));
        self
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Prompt {
        Prompt::default().text(text)
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Prompt {
        Prompt::default().text(text)
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Prompt {
        Prompt::default().text(text)
    }
}

impl From<&[u32]> for Prompt {
    fn from(ids: &[u32]) -> Prompt {
        Prompt(ids.iter().map(|id| PromptPart::Token(*id)).collect())
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(ids: Vec<u32>) -> Prompt {
        Prompt::from(&ids[..])
    }
}

/// Options of a request: how ids are chosen, what the answer is within, when it ends. [`Request::stream`] and [`Request::reply`]
/// ask.
#[must_use = "nothing is asked before `stream`, `reply` or `text`"]
pub struct Request<'a> {
    models: &'a Arc<Models>,
    generate: Generate,
}

impl<'a> Request<'a> {
    pub(super) fn of_prompt(models: &'a Arc<Models>, prompt: Prompt) -> Request<'a> {
        Request { models, generate: Generate::new(Asked::Parts(prompt.0)) }
    }

    pub(super) fn of_gap(models: &'a Arc<Models>, prefix: String, suffix: String) -> Request<'a> {
        let gap = Asked::Infill { prefix, suffix, prompt: String::new(), extra: Vec::new() };
        Request { models, generate: Generate::new(gap) }
    }

    pub(super) fn of_chat(models: &'a Arc<Models>, messages: Vec<Message>) -> Request<'a> {
        let (messages, media): (Vec<Value>, Vec<_>) = messages.into_iter().map(Message::into_parts).unzip();
        let media = media.into_iter().flatten().collect();
        let chat = Chat { messages, media, add_generation_prompt: true, ..Chat::default() };
        Request { models, generate: Generate::new(Asked::Chat(chat)) }
    }

    fn set_sampling(mut self, set: impl FnOnce(&mut Sampling)) -> Request<'a> {
        set(&mut self.generate.sampling);
        self
    }

    fn set_constraint(mut self, constraint: Constraint) -> Request<'a> {
        self.generate.constraint = Some(constraint);
        self
    }

    fn set_chat(mut self, set: impl FnOnce(&mut Chat)) -> Request<'a> {
        if let Asked::Chat(chat) = &mut self.generate.prompt {
            set(chat);
        }
        self
    }

    /// Most tokens of the answer; unless told, until the model ends it or the context is full.
    pub fn max_tokens(mut self, tokens: usize) -> Request<'a> {
        self.generate.max_tokens = Some(tokens);
        self
    }

    /// A text that ends the answer and is no part of it. May be given several times.
    pub fn stop(mut self, text: impl Into<String>) -> Request<'a> {
        self.generate.stop.push(text.into());
        self
    }

    /// Divides logits: 0 always takes the most probable id.
    pub fn temperature(self, temperature: f32) -> Request<'a> {
        self.set_sampling(|s| s.temperature = Some(temperature))
    }

    /// Ids come from the `k` most probable ones; 0 from all.
    pub fn top_k(self, k: i32) -> Request<'a> {
        self.set_sampling(|s| s.top_k = Some(k))
    }

    /// Ids come from the most probable ones whose probabilities together reach `p`.
    pub fn top_p(self, p: f32) -> Request<'a> {
        self.set_sampling(|s| s.top_p = Some(p))
    }

    /// Ids have at least this share of the most probable one's probability.
    pub fn min_p(self, p: f32) -> Request<'a> {
        self.set_sampling(|s| s.min_p = Some(p))
    }

    /// Divides logits of recent ids, where they are positive, else multiplies them; 1 is off.
    pub fn repeat_penalty(self, penalty: f32) -> Request<'a> {
        self.set_sampling(|s| s.repeat_penalty = Some(penalty))
    }

    /// Seeds the sampler: one seed gives one answer to one request, where [`ModelOptions`](super::ModelOptions) say so.
    pub fn seed(self, seed: u32) -> Request<'a> {
        self.set_sampling(|s| s.seed = Some(i64::from(seed)))
    }

    /// Adds to the logit of an id; negative infinity bans it.
    pub fn logit_bias(self, id: u32, bias: f32) -> Request<'a> {
        self.set_sampling(|s| s.logit_bias.push((PromptPart::Token(id), bias)))
    }

    /// All that is said of how ids are chosen, in place of what was said before.
    pub fn sampling(mut self, sampling: Sampling) -> Request<'a> {
        self.generate.sampling = sampling;
        self
    }

    /// The answer is a text of this grammar, in llama.cpp's notation (GBNF), whose rule `root` is the whole.
    pub fn grammar(self, gbnf: impl Into<String>) -> Request<'a> {
        self.set_constraint(Constraint::Grammar(gbnf.into()))
    }

    /// The answer is a JSON text of this schema.
    pub fn json_schema(self, schema: Value) -> Request<'a> {
        self.set_constraint(Constraint::Schema(schema))
    }

    /// The answer is a JSON object.
    pub fn json(self) -> Request<'a> {
        self.set_constraint(Constraint::JsonObject)
    }

    /// The answer is a text of this regular expression.
    pub fn regex(self, regex: impl Into<String>) -> Request<'a> {
        self.set_constraint(Constraint::Regex(regex.into()))
    }

    /// Tells the log-probability of each token, and those of the `top` most probable ones at its place.
    pub fn logprobs(mut self, top: usize) -> Request<'a> {
        self.generate.logprobs = Some(top);
        self
    }

    /// A function that the answer may call. May be given several times; of conversations alone.
    pub fn tool(self, tool: Tool) -> Request<'a> {
        self.set_chat(|chat| chat.tools.push(tool.0))
    }

    /// Which functions may or must be called; of conversations alone.
    pub fn tool_choice(self, choice: ToolChoice) -> Request<'a> {
        self.set_chat(|chat| chat.tool_choice = choice)
    }

    /// Whether the model reasons first, where its template has a switch for that, and with how many tokens at most; of conversations
    /// alone.
    pub fn reasoning(self, enabled: bool, budget: Option<usize>) -> Request<'a> {
        self.set_chat(|chat| chat.reasoning = Reasoning { enabled: Some(enabled), budget, inline: None })
    }

    /// Asks, and gives the answer as it comes. Loads the model if it is not yet. Waits until tokens, templates and grammars are made.
    ///
    /// # Errors
    /// What is wrong with the request; a model that cannot be loaded.
    pub fn stream(self) -> Result<Answer> {
        self.models.start()?;
        let model = self.models.model(None).map_err(refusal_error)?;
        let (sender, events) = mpsc::channel(EVENTS);
        for warning in model.generate(self.generate, sender).map_err(refusal_error)? {
            tracing::warn!("a request is not done as it says: {warning}");
        }
        Ok(Answer::new(model, events))
    }

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// As [`Request::stream`]; a request that failed.
    pub fn reply(self) -> Result<Reply> {
        self.stream()?.reply()
    }

    /// Asks, and waits for the answer's text.
    ///
    /// # Errors
    /// As [`Request::reply`].
    pub fn text(self) -> Result<String> {
        self.reply().map(|reply| reply.text)
    }
}
