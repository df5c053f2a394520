//! Tokens that were used, and why an answer is over.

use crate::engine::{Finish, FinishReason};
use serde_json::{json, Value};

/// `usage` of all answers of all prompts, each prompt's a list.
pub(crate) fn usage<'a>(prompts: impl Iterator<Item = Vec<&'a Finish>>) -> Value {
    let (mut prompt, mut cached, mut completion, mut reasoning) = (0, 0, 0, 0);
    for finishes in prompts {
        // Answers to one prompt share it.
        if let Some(first) = finishes.first() {
            prompt += first.prompt_tokens;
            cached += first.cached_tokens;
        }
        completion += finishes.iter().map(|f| f.completion_tokens).sum::<usize>();
        reasoning += finishes.iter().map(|f| f.reasoning_tokens).sum::<usize>();
    }
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    })
}

/// `finish_reason`.
pub(crate) fn reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::End | FinishReason::Stop(_) => "stop",
        FinishReason::Length | FinishReason::ContextFull => "length",
        FinishReason::ToolCalls => "tool_calls",
    }
}
