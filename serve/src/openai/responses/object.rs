//! A response and its items.

use crate::answers::{Answer, Block};
use crate::engine::FinishReason;
use crate::fields::Fields;
use crate::{id, logprobs};
use serde_json::{json, Map, Value};

/// Fields of a request that its response repeats, with what stands where they are absent.
fn repeated() -> [(&'static str, Value); 12] {
    [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", Value::Null),
        ("truncation", json!("disabled")),
        ("user", Value::Null),
    ]
}

/// What all events of a response share.
pub(super) struct Frame {
    pub id: String,
    created: u64,
    model: String,
    request: Map<String, Value>,
    probabilities: bool,
}

impl Frame {
    pub fn new(model: &str, fields: &Fields, probabilities: bool) -> Frame {
        let given = |(name, default): (&str, Value)| (name.to_string(), fields.value(name).cloned().unwrap_or(default));
        let request = repeated().into_iter().map(given).collect();
        Frame { id: id::new("resp_"), created: id::seconds(), model: model.into(), request, probabilities }
    }

    /// A response in that state.
    pub fn response(&self, status: &str, output: Vec<Value>) -> Value {
        let mut value = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": self.model,
            "output": output,
            "previous_response_id": null,
            "store": false,
            "usage": null,
        });
        if let Value::Object(value) = &mut value {
            value.extend(self.request.clone());
        }
        value
    }

    /// Names for the items of an answer.
    pub fn ids(&self, answer: &Answer) -> Vec<String> {
        answer.blocks.iter().map(name).collect()
    }

    /// The response of an answer that is over, and whether it is complete.
    pub fn over(&self, answer: &Answer, ids: &[String]) -> Value {
        let cut = matches!(answer.reason(), FinishReason::Length | FinishReason::ContextFull);
        let items =
            answer.blocks.iter().zip(ids).map(|(block, id)| self.item(block, id, "completed", answer)).collect();
        let mut value = self.response(if cut { "incomplete" } else { "completed" }, items);
        if cut {
            value["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        if let Some(f) = &answer.finish {
            value["usage"] = json!({
                "input_tokens": f.prompt_tokens,
                "input_tokens_details": {"cached_tokens": f.cached_tokens},
                "output_tokens": f.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": f.reasoning_tokens},
                "total_tokens": f.prompt_tokens + f.completion_tokens,
            });
        }
        value
    }

    /// An item in that state.
    pub fn item(&self, block: &Block, id: &str, status: &str, answer: &Answer) -> Value {
        match block {
            Block::Text(_) => {
                let content = if status == "completed" { json!([self.part(block, answer)]) } else { json!([]) };
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
            }
            Block::Reasoning(_) => {
                let content = if status == "completed" { json!([self.part(block, answer)]) } else { json!([]) };
                json!({"type": "reasoning", "id": id, "status": status, "summary": [], "content": content, "encrypted_content": ""})
            }
            Block::Call { id: call, name, arguments } => {
                let arguments = if status == "completed" { arguments.as_str() } else { "" };
                json!({"type": "function_call", "id": id, "status": status, "call_id": call, "name": name, "arguments": arguments})
            }
        }
    }

    /// The part that a message or reasoning consists of.
    pub fn part(&self, block: &Block, answer: &Answer) -> Value {
        match block {
            Block::Reasoning(text) => json!({"type": "reasoning_text", "text": text}),
            Block::Text(text) => {
                let told: Value = answer.text_tokens().filter(|_| self.probabilities).map(logprobs::position).collect();
                json!({"type": "output_text", "text": text, "annotations": [], "logprobs": told})
            }
            Block::Call { .. } => Value::Null,
        }
    }
}

/// A new name for an item.
pub(super) fn name(block: &Block) -> String {
    id::new(match block {
        Block::Text(_) => "msg_",
        Block::Reasoning(_) => "rs_",
        Block::Call { .. } => "fc_",
    })
}
