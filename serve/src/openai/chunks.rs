//! A chat's answer while it is made: `chat.completion.chunk`.

use super::functions;
use super::usage::usage;
use crate::engine::{Event, Finish, Phase};
use crate::errors::{ErrorShape, RequestFault};
use crate::frames::Frames;
use crate::logprobs;
use crate::stream::Script;
use crate::timings::{self, Meter};
use serde_json::{json, Value};

/// What all parts of an answer share.
pub(crate) struct ChunkFrame {
    pub id: String,
    pub created: u64,
    pub model: String,
    pub fingerprint: String,
}

impl ChunkFrame {
    /// A part, or the whole.
    pub fn object(&self, kind: &str, choices: Vec<Value>) -> Value {
        json!({
            "choices": choices,
            "created": self.created,
            "id": self.id,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "object": kind,
        })
    }
}

/// Writes chunks.
pub(super) struct Chunks {
    frame: ChunkFrame,
    /// For each answer, whether its first chunk was sent.
    begun: Vec<bool>,
    finishes: Vec<Finish>,
    meters: Vec<Meter>,
    says: Says,
    prompt: String,
}

/// What chunks say beside the answer.
pub(super) struct Says {
    pub with_usage: bool,
    pub metered: bool,
    pub probabilities: bool,
    pub verbose: bool,
    /// A call in the older shape of functions.
    pub old: bool,
}

impl Chunks {
    pub fn new(frame: ChunkFrame, answers: usize, says: Says) -> Chunks {
        Chunks {
            frame,
            begun: vec![false; answers],
            finishes: Vec::new(),
            meters: std::iter::repeat_with(Meter::new).take(answers).collect(),
            says,
            prompt: String::new(),
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.frame.object("chat.completion.chunk", choices);
        if self.says.with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The chunk that says whose answer begins.
    fn begin(&mut self, answer: usize, out: &mut Frames) {
        if self.begun.get(answer) == Some(&false) {
            self.begun[answer] = true;
            let delta = json!({"role": "assistant", "content": null});
            out.data(&self.chunk(vec![json!({"finish_reason": null, "index": answer, "delta": delta})]));
        }
    }

    /// A chunk with more of an answer.
    fn delta(&mut self, event: &Event, answer: usize, delta: Value, logprobs: Option<Value>, out: &mut Frames) {
        self.begin(answer, out);
        let times = self.meters.get_mut(answer).map(|m| m.note(event));
        let mut choice = json!({"finish_reason": null, "index": answer, "delta": delta});
        if self.says.old {
            functions::to_legacy_function_call(&mut choice["delta"]);
        }
        if let Some(content) = logprobs {
            choice["logprobs"] = json!({"content": content, "refusal": null});
        }
        let mut chunk = self.chunk(vec![choice]);
        if let Some(times) = times.filter(|_| self.says.metered) {
            chunk["timings"] = timings::json(&times);
        }
        out.data(&chunk);
    }
}

impl Script for Chunks {
    fn event(&mut self, _run: usize, event: Event, out: &mut Frames) {
        match &event {
            Event::Started { prompt, .. } => {
                self.meters.iter_mut().for_each(|m| {
                    m.note(&event);
                });
                self.prompt.clone_from(prompt);
                (0..self.begun.len()).for_each(|answer| self.begin(answer, out));
            }
            Event::Progress { total, cached, processed, ms } => {
                let delta = json!({"finish_reason": null, "index": 0, "delta": {}});
                let mut chunk = self.chunk(vec![delta]);
                chunk["prompt_progress"] = timings::progress(*total, *cached, *processed, *ms);
                out.data(&chunk);
            }
            Event::Piece { answer, phase, text, tokens } => {
                let told = (self.says.probabilities && *phase == Phase::Content && !tokens.is_empty())
                    .then(|| tokens.iter().map(logprobs::position).collect::<Vec<_>>().into());
                if text.is_empty() && told.is_none() {
                    self.meters.get_mut(*answer).map(|m| m.note(&event));
                    return;
                }
                let name = if *phase == Phase::Reasoning { "reasoning_content" } else { "content" };
                self.delta(&event, *answer, json!({ name: text }), told, out);
            }
            Event::CallStart { answer, call, name, id } => {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": call, "id": id, "type": "function", "function": function});
                self.delta(&event, *answer, json!({ "tool_calls": [call] }), None, out);
            }
            Event::CallArguments { answer, call, delta } => {
                let call = json!({"index": call, "function": {"arguments": delta}});
                self.delta(&event, *answer, json!({ "tool_calls": [call] }), None, out);
            }
            Event::Finished { answer, finish } => {
                self.begin(*answer, out);
                let choice = json!({"finish_reason": functions::reason_of(&finish.reason, self.says.old), "index": answer, "delta": {}});
                let mut chunk = self.chunk(vec![choice]);
                self.finishes.push(finish.clone());
                if !self.says.with_usage && self.finishes.len() == self.begun.len() {
                    self.last(&mut chunk);
                }
                out.data(&chunk);
            }
            Event::Prompt { .. } | Event::Failed(_) => {}
        }
    }

    fn end(&mut self, out: &mut Frames) {
        if self.says.with_usage {
            let mut chunk = self.chunk(Vec::new());
            chunk["usage"] = usage(std::iter::once(self.finishes.iter().collect()));
            self.last(&mut chunk);
            out.data(&chunk);
        }
        out.write_done();
    }

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.data(&ErrorShape::OpenAi.body(fault));
    }
}

impl Chunks {
    /// What only the last chunk has.
    fn last(&self, chunk: &mut Value) {
        if let Some(finish) = self.finishes.first() {
            chunk["timings"] = timings::json(&finish.timings);
        }
        if self.says.verbose {
            chunk["__verbose"] = json!({"prompt": self.prompt});
        }
    }
}
