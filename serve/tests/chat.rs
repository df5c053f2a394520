//! What a chat asks of the engine.

use crate::client::{connect, post, request_text, run, settings};
use crate::fake::{piece, started_event, FakeEngine, FakeStep};
use pumex_serve::engine::{Chat, Constraint, Phase, Prompt, ToolChoice};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};

/// What reaches the engine.
fn request_of_body(body: Value) -> (Chat, pumex_serve::engine::Generate) {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let reply = post(server.address, "/v1/chat/completions", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let request = fake.last();
    let Prompt::Chat(chat) = request.prompt.clone() else { panic!("no chat") };
    (chat, request)
}

#[test]
fn an_answer_that_is_being_written_can_be_told_to_stop_reasoning() {
    let fake = FakeEngine::with(|request| {
        let mut steps: Vec<FakeStep> =
            vec![FakeStep::Send(started_event(request)), FakeStep::Send(piece(0, Phase::Reasoning, "Hm", request))];
        steps.push(FakeStep::Wait(std::time::Duration::from_secs(10)));
        Ok(steps)
    });
    let server = run(fake.clone(), settings());
    let body = json!({"messages": [], "stream": true, "reasoning_control": true}).to_string();
    let mut stream = connect(server.address);
    stream.write_all(&request_text("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let chunk = lines.find_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok()).unwrap();
    let control = |id: &Value, action: &str| {
        let reply = post(server.address, "/v1/chat/completions/control", &json!({"id": id, "action": action}));
        (reply.status, reply.json()["success"].clone())
    };
    assert_eq!(control(&chunk["id"], "jump").0, 400);
    assert!(!fake.last().end_reasoning.unwrap().is_set());
    assert_eq!(control(&"chatcmpl-none".into(), "reasoning_end"), (200, json!(false)));
    assert_eq!(control(&chunk["id"], "reasoning_end"), (200, json!(true)));
    assert!(fake.last().end_reasoning.unwrap().is_set());
}

#[test]
fn a_last_message_of_the_assistant_s_is_continued() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let (chat, _) = request_of_body(
        json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": parts}]}),
    );
    assert!(chat.continue_final_message && !chat.add_generation_prompt);
    assert_eq!(chat.messages[1]["content"], "a\n\nb");
    let (chat, _) = request_of_body(json!({"messages": [{"role": "user", "content": "x"}]}));
    assert!(!chat.continue_final_message && chat.add_generation_prompt);
}

#[test]
fn functions_formats_and_reasoning_reach_the_engine() {
    let weather = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let (chat, request) = request_of_body(json!({
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
