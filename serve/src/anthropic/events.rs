//! A message while it is made.

use super::messages::{end, message, usage};
use crate::answers::{AnswerBlock, AnswerParts, BlockChange};
use crate::engine::Event;
use crate::errors::{ErrorShape, RequestFault};
use crate::frames::Frames;
use crate::stream::Script;
use serde_json::{json, Value};

/// Writes events.
pub(super) struct MessageEvents {
    id: String,
    model: String,
    answer: AnswerParts,
    /// Whether the last block is open.
    open: bool,
}

impl MessageEvents {
    pub fn new(id: String, model: String) -> MessageEvents {
        MessageEvents { id, model, answer: AnswerParts::default(), open: false }
    }

    fn index(&self) -> usize {
        self.answer.blocks.len().saturating_sub(1)
    }

    fn close(&mut self, out: &mut Frames) {
        if std::mem::take(&mut self.open) {
            let index = self.index();
            if let Some(AnswerBlock::Reasoning(_)) = self.answer.blocks.last() {
                delta(index, json!({"type": "signature_delta", "signature": ""}), out);
            }
            send("content_block_stop", json!({ "index": index }), out);
        }
    }
}

/// An event, whose type stands in it too.
fn send(name: &str, fields: Value, out: &mut Frames) {
    let mut value = json!({ "type": name });
    if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
        value.extend(fields);
    }
    out.event(name, &value);
}

fn delta(index: usize, delta: Value, out: &mut Frames) {
    send("content_block_delta", json!({"index": index, "delta": delta}), out);
}

impl Script for MessageEvents {
    fn event(&mut self, _run: usize, event: Event, out: &mut Frames) {
        match event {
            Event::Started { prompt_tokens, cached_tokens, .. } => {
                let mut start = message(&self.id, &self.model);
                start["usage"] = json!({
                    "input_tokens": prompt_tokens.saturating_sub(cached_tokens),
                    "cache_creation_input_tokens": 0,
                    "cache_read_input_tokens": cached_tokens,
                    "output_tokens": 0,
                });
                send("message_start", json!({ "message": start }), out);
                self.ping(out);
            }
            Event::Progress { .. } | Event::Prompt { .. } | Event::Failed(_) => {}
            Event::Finished { ref finish, .. } => {
                self.close(out);
                let finish = finish.clone();
                self.answer.take(event);
                let mut delta = json!({});
                end(&mut delta, &self.answer);
                send("message_delta", json!({"delta": delta, "usage": usage(&finish)}), out);
            }
            event => {
                let more = match &event {
                    Event::Piece { text, .. } => text.clone(),
                    Event::CallArguments { delta, .. } => delta.clone(),
                    _ => String::new(),
                };
                let change = self.answer.take(event);
                if change == BlockChange::None {
                    return;
                }
                if change == BlockChange::Opened {
                    // The block before is closed while it is the last one.
                    let last = self.answer.blocks.pop();
                    self.close(out);
                    self.answer.blocks.extend(last);
                    self.open = true;
                    let start = match self.answer.blocks.last() {
                        Some(AnswerBlock::Call { id, name, .. }) => {
                            json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                        }
                        Some(AnswerBlock::Reasoning(_)) => json!({"type": "thinking", "thinking": "", "signature": ""}),
                        _ => json!({"type": "text", "text": ""}),
                    };
                    send("content_block_start", json!({"index": self.index(), "content_block": start}), out);
                }
                let more = match self.answer.blocks.last() {
                    Some(AnswerBlock::Call { .. }) => json!({"type": "input_json_delta", "partial_json": more}),
                    Some(AnswerBlock::Reasoning(_)) => json!({"type": "thinking_delta", "thinking": more}),
                    _ => json!({"type": "text_delta", "text": more}),
                };
                delta(self.index(), more, out);
            }
        }
    }

    fn end(&mut self, out: &mut Frames) {
        send("message_stop", json!({}), out);
    }

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.event("error", &ErrorShape::Anthropic.body(fault));
    }

    fn ping(&mut self, out: &mut Frames) {
        send("ping", json!({}), out);
    }
}
