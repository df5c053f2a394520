//! Answers as Ollama writes them: whole, or a line for each piece.

use crate::answers::{AnswerBlock, AnswerParts};
use crate::engine::{Event, Finish, FinishReason, Phase};
use crate::errors::{ErrorShape, RequestFault};
use crate::frames::Frames;
use crate::stream::Script;
use crate::{id, logprobs};
use serde_json::{json, Value};
use std::time::Instant;

/// Which endpoint's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineShape {
    Chat,
    Generate,
}

/// What all lines share.
pub(super) struct LineFrame {
    pub kind: LineShape,
    pub model: String,
    /// When the request came.
    pub begun: Instant,
    pub probabilities: bool,
}

impl LineFrame {
    /// A line with some text.
    pub fn line(&self, text: &str, thinking: &str, calls: Vec<Value>) -> Value {
        let mut value = json!({"model": self.model, "created_at": id::date(id::seconds())});
        let holder = match self.kind {
            LineShape::Generate => {
                value["response"] = text.into();
                &mut value
            }
            LineShape::Chat => {
                value["message"] = json!({"role": "assistant", "content": text});
                &mut value["message"]
            }
        };
        if !thinking.is_empty() {
            holder["thinking"] = thinking.into();
        }
        if !calls.is_empty() {
            holder["tool_calls"] = calls.into();
        }
        value["done"] = false.into();
        value
    }

    /// What the last line has beside; times are in nanoseconds.
    pub fn end(&self, value: &mut Value, reason: &FinishReason, finish: &Finish) {
        let ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
        let t = &finish.timings;
        value["done"] = true.into();
        value["done_reason"] = match reason {
            FinishReason::Length | FinishReason::ContextFull => "length".into(),
            _ => "stop".into(),
        };
        value["total_duration"] = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX).into();
        value["load_duration"] = ns(t.queue_ms).into();
        value["prompt_eval_count"] = finish.prompt_tokens.into();
        value["prompt_eval_duration"] = ns(t.prompt_ms).into();
        value["eval_count"] = finish.completion_tokens.into();
        value["eval_duration"] = ns(t.predicted_ms).into();
    }

    /// An answer in one line.
    pub fn whole(&self, answer: &AnswerParts) -> Value {
        let calls = answer.blocks.iter().filter_map(call).collect();
        let mut value = self.line(&answer.text(), &answer.reasoning(), calls);
        if self.probabilities {
            value["logprobs"] = answer.text_tokens().map(logprobs::position).collect();
        }
        if let Some(finish) = &answer.finish {
            self.end(&mut value, &finish.reason, finish);
        }
        value
    }

    /// The line for a model that is loaded or unloaded.
    pub fn load_line(&self, reason: &str) -> Value {
        let mut value = self.line("", "", Vec::new());
        value["done"] = true.into();
        value["done_reason"] = reason.into();
        value
    }
}

/// A call, whose arguments are an object here.
fn call(block: &AnswerBlock) -> Option<Value> {
    let AnswerBlock::Call { id, name, arguments } = block else { return None };
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    Some(json!({"id": id, "function": {"name": name, "arguments": arguments}}))
}

/// Writes lines.
pub(super) struct OllamaLines {
    frame: LineFrame,
    answer: AnswerParts,
    /// Calls that were sent: each is, as soon as the next thing begins.
    sent: usize,
}

impl OllamaLines {
    pub fn new(frame: LineFrame) -> OllamaLines {
        OllamaLines { frame, answer: AnswerParts::default(), sent: 0 }
    }

    /// Sends the calls that are over: all but the last block, or that too.
    fn calls(&mut self, over: usize, out: &mut Frames) {
        let calls: Vec<Value> = self.answer.blocks[self.sent.min(over)..over].iter().filter_map(call).collect();
        self.sent = over;
        if !calls.is_empty() {
            out.data(&self.frame.line("", "", calls));
        }
    }
}

impl Script for OllamaLines {
    fn event(&mut self, _run: usize, event: Event, out: &mut Frames) {
        match &event {
            Event::Finished { finish, .. } => {
                self.calls(self.answer.blocks.len(), out);
                let mut last = self.frame.line("", "", Vec::new());
                self.frame.end(&mut last, &finish.reason, finish);
                out.data(&last);
            }
            Event::Piece { phase, text, tokens, .. } => {
                let told: Vec<Value> = tokens
                    .iter()
                    .filter(|_| self.frame.probabilities && *phase == Phase::Content)
                    .map(logprobs::position)
                    .collect();
                let mut line = match phase {
                    Phase::Reasoning => self.frame.line("", text, Vec::new()),
                    _ => self.frame.line(text, "", Vec::new()),
                };
                let says = !text.is_empty() || !told.is_empty();
                if !told.is_empty() {
                    line["logprobs"] = told.into();
                }
                self.answer.take(event);
                self.calls(self.answer.blocks.len().saturating_sub(1), out);
                if says {
                    out.data(&line);
                }
            }
            _ => {
                self.answer.take(event);
                self.calls(self.answer.blocks.len().saturating_sub(1), out);
            }
        }
    }

    fn end(&mut self, _: &mut Frames) {}

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.data(&ErrorShape::Ollama.body(fault));
    }
}
