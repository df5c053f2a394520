//! Bodies that are nearly right: those of each endpoint, with fields of other values, types and places.

use serde_json::{json, Map, Value};

/// A stream of bytes that decides everything.
pub struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Each endpoint with a body that it takes.
fn endpoints() -> Vec<(&'static str, Value)> {
    let messages =
        json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "text", "text": "y"}]}]);
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let flat = json!({"type": "function", "name": "f", "parameters": {}, "input_schema": {}});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let result = json!({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}]});
    vec![
        ("/v1/chat/completions", json!({"messages": messages, "tools": [tool], "stream": false, "logprobs": true})),
        ("/v1/completions", json!({"prompt": ["x", [1, 2]], "n": 2, "logprobs": 2, "echo": true})),
        (
            "/v1/responses",
            json!({"input": [{"role": "user", "content": "x"}, call], "tools": [flat], "text": {"format": {"type": "text"}}}),
        ),
        ("/v1/embeddings", json!({"input": ["x"], "encoding_format": "base64", "dimensions": 2})),
        ("/embeddings", json!({"input": [1, "x"], "pooling": "none"})),
        (
            "/completion",
            json!({"prompt": {"prompt_string": "x"}, "n_probs": 2, "response_fields": ["content", "timings/cache_n"]}),
        ),
        ("/infill", json!({"input_prefix": "x", "input_suffix": "y", "input_extra": [{"text": "z"}]})),
        ("/tokenize", json!({"content": "x", "with_pieces": true})),
        ("/detokenize", json!({"tokens": [1, 2]})),
        ("/apply-template", json!({ "messages": messages })),
        ("/rerank", json!({"query": "q", "documents": ["a", "b"], "top_n": 1})),
        ("/slots/1?action=save", json!({"filename": "f"})),
        ("/lora-adapters", json!([{"id": 0, "scale": 1.0}])),
        (
            "/v1/messages",
            json!({"max_tokens": 5, "messages": [{"role": "user", "content": [result]}], "tools": [flat], "system": "s"}),
        ),
        ("/v1/messages/count_tokens", json!({ "messages": messages })),
        (
            "/api/chat",
            json!({"messages": [{"role": "user", "content": "x"}], "options": {"num_predict": 5}, "format": "json"}),
        ),
        ("/api/generate", json!({"prompt": "x", "system": "s", "think": true})),
        ("/api/embed", json!({"input": ["x"]})),
        ("/api/show", json!({"model": "fake-1b"})),
        ("/models/load", json!({"model": "fake-1b"})),
    ]
}

/// Fields that endpoints read beside those above, and some that none does.
const NAMES: &[&str] = &[
    "stream",
    "stream_options",
    "include_usage",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "stop",
    "stop_sequences",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "n_probs",
    "grammar",
    "json_schema",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking",
    "budget_tokens",
    "system",
    "messages",
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "input",
    "prompt",
    "model",
    "id_slot",
    "lora",
    "scale",
    "samplers",
    "dry_sequence_breakers",
    "t_max_predict_ms",
    "response_fields",
    "user",
    "priority",
    "metadata",
    "options",
    "format",
    "images",
    "think",
    "keep_alive",
    "dimensions",
    "add_generation_prompt",
    "continue_final_message",
    "unknown",
    "post_sampling_probs",
    "return_progress",
    "timings_per_token",
    "echo",
    "best_of",
    "previous_response_id",
    "instructions",
];

const TEXTS: &[&str] = &[
    "",
    "x",
    "user",
    "assistant",
    "system",
    "tool",
    "text",
    "function",
    "auto",
    "required",
    "none",
    "json_object",
    "json_schema",
    "\u{0}",
    "😀",
    "../../etc/passwd",
    "{",
    "root ::= \"a\"",
    "1e999",
    "image_url",
    "input_text",
    "tool_use",
    "thinking",
];

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, at: 0 }
    }

    /// The next one; 0 for ever after the last.
    fn next(&mut self) -> usize {
        self.at += 1;
        self.bytes.get(self.at - 1).copied().unwrap_or(0).into()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() % from.len()]
    }

    /// An endpoint's path and a body.
    pub fn request(&mut self) -> (&'static str, Value) {
        let all = endpoints();
        let (path, mut body) = all[self.next() % all.len()].clone();
        for _ in 0..self.next() % 4 {
            self.change(&mut body, 5);
        }
        (path, body)
    }

    /// Changes something in a value, here or deeper.
    fn change(&mut self, value: &mut Value, depth: usize) {
        match (value, self.next() % 4) {
            (Value::Object(map), 0) => drop(map.insert(self.pick(NAMES).into(), self.value(3))),
            (Value::Object(map), 1..) if !map.is_empty() && depth > 0 => {
                let place = self.next() % map.len();
                if let Some(inner) = map.values_mut().nth(place) {
                    self.change(inner, depth - 1);
                }
            }
            (Value::Array(items), 1..) if !items.is_empty() && depth > 0 => {
                let place = self.next() % items.len();
                self.change(&mut items[place], depth - 1);
            }
            (value, _) => *value = self.value(3),
        }
    }

    /// Any value of at most that depth.
    fn value(&mut self, depth: usize) -> Value {
        match self.next() % if depth == 0 { 6 } else { 8 } {
            0 => Value::Null,
            1 => self.next().is_multiple_of(2).into(),
            2 => self.pick(&[0i64, 1, -1, 2, 5, 300, 1 << 20, i64::MAX, i64::MIN]).into(),
            3 => self.pick(&[0.0, 0.5, -0.5, 1e300, -1e300, 1e-300, 3.0]).into(),
            4 => self.pick(TEXTS).into(),
            5 => "x".repeat(self.next() * 8).into(),
            6 => (0..self.next() % 4).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let count = self.next() % 4;
                Value::Object(
                    (0..count).map(|_| (self.pick(NAMES).to_string(), self.value(depth - 1))).collect::<Map<_, _>>(),
                )
            }
        }
    }
}
