//! Answers as they come, and whole.

use crate::{Error, Result};
use pumex_serve::engine::{Event, FinishReason, Model, Phase, Refusal, Timings, TokenLogprob};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tokio::sync::mpsc::Receiver;

/// An error in words, with the field that it is about.
pub(super) fn refusal_error(refusal: Refusal) -> Error {
    match refusal.field {
        Some(field) if !field.is_empty() && !refusal.message.contains(&field) => {
            Error::Request(format!("{field}: {}", refusal.message))
        }
        _ => Error::Request(refusal.message),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Waits for what another thread sends, also on a thread that runs tasks of its own.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(std::thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A token that was generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its bytes, which may be a part of a character.
    pub bytes: Vec<u8>,
    /// Its log-probability before all samplers, where [`Request::logprobs`](super::Request::logprobs) asks for it.
    pub logprob: Option<f32>,
    /// The most probable ids at its place, best first, likewise.
    pub top: Vec<TokenLogprob>,
}

/// More of a call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDelta {
    /// Which call of the answer, from 0.
    pub index: usize,
    /// Its name and id, with the first of its deltas.
    pub begins: Option<(String, String)>,
    /// More of the JSON text of its arguments.
    pub arguments: String,
}

/// More of an answer. It is shown as its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// Text of the answer, whole characters; may be empty.
    pub text: String,
    /// Text of the model's reasoning, likewise.
    pub reasoning: String,
    /// A call of a function.
    pub call: Option<CallDelta>,
    /// The tokens that it brings.
    pub tokens: Vec<Token>,
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A call of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, which [`Message::tool`](super::Message::tool) names.
    pub id: String,
    /// The function.
    pub name: String,
    /// Its arguments, the text of a JSON object.
    pub arguments: String,
}

/// An answer as a whole. It is shown as its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What it says.
    pub text: String,
    /// What the model thought before.
    pub reasoning: String,
    /// Functions that it calls.
    pub tool_calls: Vec<ToolCall>,
    /// Its tokens, those of reasoning and calls, too.
    pub tokens: Vec<Token>,
    /// Why it is over.
    pub finish: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// Where its time went.
    pub timings: Timings,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An answer under way: an iterator of its parts, which waits for the next one. To drop it ends the request.
///
/// ```no_run
/// # let model = pumex::Model::open("model.gguf")?;
/// for chunk in model.generate("In the beginning").stream()? {
///     print!("{}", chunk?);
/// }
/// # Ok::<(), pumex::Error>(())
/// ```
pub struct Answer {
    events: Receiver<Event>,
    reply: Reply,
    is_over: bool,
    /// Loaded for as long as it answers.
    _model: Arc<dyn Model>,
}

impl Answer {
    pub(super) fn new(model: Arc<dyn Model>, events: Receiver<Event>) -> Answer {
        let reply = Reply {
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            tokens: Vec::new(),
            finish: FinishReason::End,
            prompt_tokens: 0,
            completion_tokens: 0,
            timings: Timings::default(),
        };
        Answer { events, reply, is_over: false, _model: model }
    }

    /// The next part; none when the answer is over. For programs that run tasks; others use the iterator.
    ///
    /// # Errors
    /// A request that failed.
    pub async fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        while !self.is_over {
            match self.events.recv().await {
                Some(event) => match self.take(event)? {
                    Some(chunk) => return Ok(Some(chunk)),
                    None => continue,
                },
                None => {
                    self.is_over = true;
                    return Err(Error::Request("the model gave up this request".into()));
                }
            }
        }
        Ok(None)
    }

    /// What is left of the answer, with what came before, as a whole. Waits until it is over.
    ///
    /// # Errors
    /// A request that failed.
    pub fn reply(mut self) -> Result<Reply> {
        for chunk in self.by_ref() {
            chunk?;
        }
        Ok(self.reply)
    }

    /// What came so far.
    pub fn so_far(&self) -> &Reply {
        &self.reply
    }

    fn take(&mut self, event: Event) -> Result<Option<Chunk>> {
        match event {
            Event::Started { prompt_tokens, .. } => self.reply.prompt_tokens = prompt_tokens,
            Event::Piece { phase, text, tokens, .. } => {
                let token = |t: pumex_serve::engine::GeneratedToken| Token {
                    id: t.id,
                    bytes: t.bytes,
                    logprob: t.logprob,
                    top: t.top,
                };
                let tokens: Vec<Token> = tokens.into_iter().map(token).collect();
                self.reply.tokens.extend_from_slice(&tokens);
                let mut chunk = Chunk { tokens, ..Chunk::default() };
                match phase {
                    Phase::Content => chunk.text = text,
                    Phase::Reasoning => chunk.reasoning = text,
                    Phase::Call => {}
                }
                self.reply.text.push_str(&chunk.text);
                self.reply.reasoning.push_str(&chunk.reasoning);
                return Ok(Some(chunk));
            }
            Event::CallStart { call, name, id, .. } => {
                let begins = Some((name.clone(), id.clone()));
                self.reply.tool_calls.push(ToolCall { id, name, arguments: String::new() });
                let call = Some(CallDelta { index: call, begins, arguments: String::new() });
                return Ok(Some(Chunk { call, ..Chunk::default() }));
            }
            Event::CallArguments { call, delta, .. } => {
                if let Some(known) = self.reply.tool_calls.get_mut(call) {
                    known.arguments.push_str(&delta);
                }
                let call = Some(CallDelta { index: call, begins: None, arguments: delta });
                return Ok(Some(Chunk { call, ..Chunk::default() }));
            }
            Event::Finished { finish, .. } => {
                self.is_over = true;
                (self.reply.finish, self.reply.timings) = (finish.reason, finish.timings);
                (self.reply.prompt_tokens, self.reply.completion_tokens) =
                    (finish.prompt_tokens, finish.completion_tokens);
            }
            Event::Failed(refusal) => {
                self.is_over = true;
                return Err(refusal_error(refusal));
            }
            Event::Progress { .. } | Event::Prompt { .. } => {}
        }
        Ok(None)
    }
}

impl Iterator for Answer {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        wait(self.next_chunk()).transpose()
    }
}
