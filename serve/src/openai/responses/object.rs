//! A response and its items.

use super::tools::{free_text, Tools};
use crate::answers::{AnswerBlock, AnswerParts};
use crate::engine::FinishReason;
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::App;
use crate::{id, logprobs};
use serde_json::{json, Map, Value};
use std::sync::Arc;

/// Fields of a request that its response repeats, with what stands where they are absent.
fn echoed_fields() -> [(&'static str, Value); 13] {
    [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("store", json!(true)),
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
pub(super) struct ResponseFrame {
    pub id: String,
    created: u64,
    model: String,
    request: Map<String, Value>,
    probabilities: bool,
    tools: Tools,
    keeper: Option<Keeper>,
}

/// Where the items of a response are kept, and for whose key.
pub(super) struct Keeper {
    pub app: Arc<App>,
    pub key: Option<usize>,
}

impl ResponseFrame {
    /// What the events of an answer to a body share.
    ///
    /// # Errors
    /// Tools of a wrong shape.
    pub fn new(model: &str, fields: &Fields, probabilities: bool, keeper: Option<Keeper>) -> Result<ResponseFrame> {
        let given = |(name, default): (&str, Value)| (name.to_string(), fields.value(name).cloned().unwrap_or(default));
        let request = echoed_fields().into_iter().map(given).collect();
        let (id, created, tools) = (id::new("resp_"), id::seconds(), Tools::read(fields)?);
        Ok(ResponseFrame { id, created, model: model.into(), request, probabilities, tools, keeper })
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
            "usage": null,
        });
        if let Value::Object(value) = &mut value {
            value.extend(self.request.clone());
        }
        value
    }

    /// Whether a block is a call of a tool of free text.
    pub fn is_free(&self, block: &AnswerBlock) -> bool {
        matches!(block, AnswerBlock::Call { name, .. } if self.tools.form(name).free)
    }

    /// Names for the items of an answer.
    pub fn ids(&self, answer: &AnswerParts) -> Vec<String> {
        answer.blocks.iter().map(name).collect()
    }

    /// The response of an answer that is over, and whether it is complete.
    pub fn finished_response(&self, answer: &AnswerParts, ids: &[String]) -> Value {
        let last = answer.blocks.len().saturating_sub(1);
        let item = |(at, (block, id)): (usize, (&AnswerBlock, &String))| {
            self.item(block, id, if at == last { ending(answer) } else { "completed" }, answer)
        };
        let items = answer.blocks.iter().zip(ids).enumerate().map(item).collect();
        let mut value = self.response(ending(answer), items);
        if let Some(keeper) = &self.keeper {
            keeper.app.kept.add(keeper.key, &value["output"]);
        }
        if ending(answer) == "incomplete" {
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
    pub fn item(&self, block: &AnswerBlock, id: &str, status: &str, answer: &AnswerParts) -> Value {
        let is_over = status != "in_progress";
        match block {
            AnswerBlock::Text(_) => {
                let content = if is_over { json!([self.part(block, answer)]) } else { json!([]) };
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
            }
            AnswerBlock::Reasoning(_) => {
                let content = if is_over { json!([self.part(block, answer)]) } else { json!([]) };
                json!({"type": "reasoning", "id": id, "status": status, "summary": [], "content": content, "encrypted_content": ""})
            }
            AnswerBlock::Call { id: call, name, arguments } => {
                let form = self.tools.form(name);
                let arguments = if is_over { arguments.as_str() } else { "" };
                let mut item = match form.free {
                    true => {
                        json!({"type": "custom_tool_call", "id": id, "status": status, "call_id": call, "name": name,
                        "input": if is_over { free_text(arguments) } else { String::new() }})
                    }
                    false => json!({"type": "function_call", "id": id, "status": status, "call_id": call, "name": name,
                        "arguments": arguments}),
                };
                if let Some(namespace) = form.namespace {
                    item["namespace"] = namespace.into();
                }
                item
            }
        }
    }

    /// The part that a message or reasoning consists of.
    pub fn part(&self, block: &AnswerBlock, answer: &AnswerParts) -> Value {
        match block {
            AnswerBlock::Reasoning(text) => json!({"type": "reasoning_text", "text": text}),
            AnswerBlock::Text(text) => {
                let told: Value = answer.text_tokens().filter(|_| self.probabilities).map(logprobs::position).collect();
                json!({"type": "output_text", "text": text, "annotations": [], "logprobs": told})
            }
            AnswerBlock::Call { .. } => Value::Null,
        }
    }
}

/// The state of an answer that is over, which is that of its last item too.
pub(super) fn ending(answer: &AnswerParts) -> &'static str {
    match answer.reason() {
        FinishReason::Length | FinishReason::ContextFull => "incomplete",
        _ => "completed",
    }
}

/// A new name for an item.
pub(super) fn name(block: &AnswerBlock) -> String {
    id::new(match block {
        AnswerBlock::Text(_) => "msg_",
        AnswerBlock::Reasoning(_) => "rs_",
        AnswerBlock::Call { .. } => "fc_",
    })
}
