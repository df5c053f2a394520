//! What a chat asks of the engine.

use crate::client::{post, run, settings};
use crate::fake::Fake;
use pumex_serve::engine::{Chat, Constraint, Prompt, ToolChoice};
use serde_json::{json, Value};

/// What reaches the engine.
fn asked(body: Value) -> (Chat, pumex_serve::engine::Generate) {
    let fake = Fake::hello();
    let server = run(fake.clone(), settings());
    let reply = post(server.address, "/v1/chat/completions", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let request = fake.last();
    let Prompt::Chat(chat) = request.prompt.clone() else { panic!("no chat") };
    (chat, request)
}

#[test]
fn a_last_message_of_the_assistant_s_is_continued() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let (chat, _) =
        asked(json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": parts}]}));
    assert!(chat.continue_final_message && !chat.add_generation_prompt);
    assert_eq!(chat.messages[1]["content"], "a\n\nb");
    let (chat, _) = asked(json!({"messages": [{"role": "user", "content": "x"}]}));
    assert!(!chat.continue_final_message && chat.add_generation_prompt);
}

#[test]
fn functions_formats_and_reasoning_reach_the_engine() {
    let weather = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let (chat, request) = asked(json!({
        "messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "x"}],
        "tools": [weather], "tool_choice": {"type": "function", "function": {"name": "weather"}}, "parallel_tool_calls": false,
        "chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "none", "thinking_budget_tokens": 5,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        "logprobs": true, "top_logprobs": 2, "unknown_field": {"a": 1}, "skip_special_tokens": false,
    }));
    assert_eq!(chat.messages[0]["role"], "system");
    assert_eq!(
        (chat.tools.as_slice(), chat.tool_choice),
        ([weather].as_slice(), ToolChoice::Function("weather".into()))
    );
    assert_eq!(
        (chat.parallel_tool_calls, chat.reasoning.enabled, chat.reasoning.budget),
        (Some(false), Some(false), Some(5))
    );
    assert_eq!(chat.template_kwargs["reasoning_effort"], "none");
    assert_eq!((request.constraint, request.logprobs), (Some(Constraint::Schema(json!({"type": "object"}))), Some(2)));
}
