//! A response while it is made.

use super::object::{ending, name, ResponseFrame};
use super::tools::free_text;
use crate::answers::{AnswerBlock, AnswerParts, BlockChange};
use crate::engine::{Event, Phase};
use crate::errors::{ErrorShape, RequestFault};
use crate::frames::Frames;
use crate::logprobs;
use crate::stream::Script;
use crate::timings::{self, Meter};
use serde_json::{json, Value};

/// Writes events.
pub(super) struct ResponseEvents {
    frame: ResponseFrame,
    metered: bool,
    meter: Meter,
    answer: AnswerParts,
    ids: Vec<String>,
    /// Whether the last item is open.
    open: bool,
    sequence: u64,
}

impl ResponseEvents {
    pub fn new(frame: ResponseFrame, metered: bool) -> ResponseEvents {
        let (meter, answer) = (Meter::new(), AnswerParts::default());
        ResponseEvents { frame, metered, meter, answer, ids: Vec::new(), open: false, sequence: 0 }
    }

    fn send(&mut self, kind: &str, fields: Value, out: &mut Frames) {
        let mut value = json!({"type": kind, "sequence_number": self.sequence});
        if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
            value.extend(fields);
        }
        self.sequence += 1;
        out.event(kind, &value);
    }

    /// Where the last item stands, as its events say it.
    fn place(&self) -> Value {
        let index = self.ids.len().saturating_sub(1);
        json!({"item_id": self.ids.last(), "output_index": index})
    }

    /// Where the only part of the last item stands, as its events say it.
    fn place_in_part(&self) -> Value {
        let mut place = self.place();
        place["content_index"] = 0.into();
        place
    }

    /// The last block becomes an item.
    fn open(&mut self, out: &mut Frames) {
        let Some(block) = self.answer.blocks.last().cloned() else { return };
        let id = name(&block);
        let item = self.frame.item(&block, &id, "in_progress", &self.answer);
        self.ids.push(id);
        self.open = true;
        let index = self.ids.len() - 1;
        self.send("response.output_item.added", json!({"output_index": index, "item": item}), out);
        let empty = match block {
            AnswerBlock::Text(_) => json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
            AnswerBlock::Reasoning(_) => json!({"type": "reasoning_text", "text": ""}),
            AnswerBlock::Call { .. } => return,
        };
        let added = with(self.place_in_part(), "part", empty);
        self.send("response.content_part.added", added, out);
    }

    /// The last item is over, in that state.
    fn close(&mut self, status: &str, out: &mut Frames) {
        let Some(block) = self.answer.blocks.last().cloned().filter(|_| std::mem::take(&mut self.open)) else { return };
        let part = self.frame.part(&block, &self.answer);
        match &block {
            AnswerBlock::Text(text) => {
                let mut done = with(self.place_in_part(), "text", text.clone().into());
                done["logprobs"] = part["logprobs"].clone();
                self.send("response.output_text.done", done, out);
            }
            AnswerBlock::Reasoning(text) => {
                let done = with(self.place_in_part(), "text", text.clone().into());
                self.send("response.reasoning_text.done", done, out);
            }
            AnswerBlock::Call { arguments, .. } if self.frame.is_free(&block) => {
                let input = free_text(arguments);
                let delta = with(self.place(), "delta", input.clone().into());
                self.send("response.custom_tool_call_input.delta", delta, out);
                let done = with(self.place(), "input", input.into());
                self.send("response.custom_tool_call_input.done", done, out);
            }
            AnswerBlock::Call { arguments, name, .. } => {
                let mut done = with(self.place(), "arguments", arguments.clone().into());
                done["name"] = name.clone().into();
                self.send("response.function_call_arguments.done", done, out);
            }
        }
        if !part.is_null() {
            let done = with(self.place_in_part(), "part", part);
            self.send("response.content_part.done", done, out);
        }
        let id = self.ids.last().cloned().unwrap_or_default();
        let item = self.frame.item(&block, &id, status, &self.answer);
        let index = self.ids.len() - 1;
        self.send("response.output_item.done", json!({"output_index": index, "item": item}), out);
    }

    /// More of the last item.
    fn delta(&mut self, more: &str, told: Value, times: Option<Value>, out: &mut Frames) {
        let (kind, place) = match self.answer.blocks.last() {
            Some(AnswerBlock::Call { .. }) => ("response.function_call_arguments.delta", self.place()),
            Some(AnswerBlock::Reasoning(_)) => ("response.reasoning_text.delta", self.place_in_part()),
            _ => ("response.output_text.delta", with(self.place_in_part(), "logprobs", told)),
        };
        let mut delta = with(place, "delta", more.into());
        if let Some(times) = times {
            delta["timings"] = times;
        }
        self.send(kind, delta, out);
    }
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

impl Script for ResponseEvents {
    fn event(&mut self, _run: usize, event: Event, out: &mut Frames) {
        let times = self.meter.note(&event);
        let times = self.metered.then(|| timings::json(&times));
        match event {
            Event::Started { .. } => {
                for kind in ["response.created", "response.in_progress"] {
                    let response = self.frame.response("in_progress", Vec::new());
                    self.send(kind, json!({ "response": response }), out);
                }
            }
            Event::Progress { total, cached, processed, ms } => {
                let mut response = self.frame.response("in_progress", Vec::new());
                response["prompt_progress"] = timings::progress(total, cached, processed, ms);
                let progress = response["prompt_progress"].clone();
                self.send("response.in_progress", json!({"response": response, "prompt_progress": progress}), out);
            }
            Event::Finished { .. } => {
                self.answer.take(event);
                self.close(ending(&self.answer), out);
            }
            Event::Prompt { .. } | Event::Failed(_) => {}
            event => {
                let (more, told) = match &event {
                    Event::Piece { text, phase, tokens, .. } => {
                        let told = tokens.iter().filter(|t| *phase == Phase::Content && t.logprob.is_some());
                        (text.clone(), told.map(logprobs::position).collect())
                    }
                    Event::CallArguments { delta, .. } => (delta.clone(), Value::Null),
                    _ => (String::new(), Value::Null),
                };
                let change = self.answer.take(event);
                if change == BlockChange::Opened {
                    // The item before is closed while its block is the last one.
                    let last = self.answer.blocks.pop();
                    self.close("completed", out);
                    self.answer.blocks.extend(last);
                    self.open(out);
                }
                let free = self.answer.blocks.last().is_some_and(|block| self.frame.is_free(block));
                if change != BlockChange::None && !more.is_empty() && !free {
                    self.delta(&more, told, times, out);
                }
            }
        }
    }

    fn end(&mut self, out: &mut Frames) {
        let response = self.frame.finished_response(&self.answer, &self.ids);
        let kind = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        let mut fields = json!({ "response": response });
        if let Some(finish) = &self.answer.finish {
            fields["timings"] = timings::json(&finish.timings);
        }
        self.send(kind, fields, out);
    }

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        let mut response = self.frame.response("failed", Vec::new());
        response["error"] = json!({"code": "server_error", "message": fault.refusal.message});
        self.send("response.failed", json!({ "response": response }), out);
        let error = ErrorShape::OpenAi.body(fault)["error"].clone();
        self.send(
            "error",
            json!({"code": "server_error", "message": fault.refusal.message, "param": null, "error": error}),
            out,
        );
    }
}
