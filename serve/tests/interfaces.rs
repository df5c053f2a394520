//! What clients of each interface lean on, beside the shapes that are stored.

use crate::client::{get, post, run, send, settings};
use crate::fake::{finished_event, piece, started_event, FakeEngine, FakeStep};
use pumex_serve::engine::{Event, FinishReason, Generate, Phase, Prompt, ToolChoice};
use serde_json::{json, Value};

fn user() -> Value {
    json!([{"role": "user", "content": "x"}])
}

#[test]
fn each_answer_has_the_id_of_its_request() {
    let server = run(FakeEngine::hello(), settings());
    let mut seen = Vec::new();
    for (path, header) in
        [("/v1/chat/completions", "x-request-id"), ("/v1/responses", "x-request-id"), ("/v1/messages", "request-id")]
    {
        for body in [json!({"messages": user(), "input": "x", "max_tokens": 4}), json!({"messages": 3})] {
            let reply = post(server.address, path, &body);
            let id = reply.header(header).unwrap_or_default().to_string();
            assert!(id.len() > 8 && !seen.contains(&id), "{path}: {id}");
            if path == "/v1/messages" && reply.status != 200 {
                assert_eq!(reply.json()["request_id"], id);
            }
            seen.push(id);
        }
    }
}

#[test]
fn models_are_listed_for_clients_of_both_interfaces() {
    let server = run(FakeEngine::hello(), settings());
    let list = |path: &str| {
        let reply = send(server.address, "GET", path, &[("anthropic-version", "2023-06-01")], b"");
        (reply.status, reply.json())
    };
    let (status, page) = list("/v1/models");
    let id = page["data"][0]["id"].as_str().unwrap().to_string();
    assert!(status == 200 && page["data"][0]["type"] == "model" && page["has_more"] == false, "{page}");
    assert_eq!(list(&format!("/v1/models?after_id={id}")).1["data"], json!([]));
    assert_eq!(list(&format!("/v1/models/{id}")).1["display_name"], id);
    assert_eq!(list("/v1/models?limit=0").0, 400);
    assert_eq!(get(server.address, "/v1/models").json()["object"], "list");
}

#[test]
fn threads_are_refused_by_the_code_at_which_clients_send_everything() {
    let server = run(FakeEngine::hello(), settings());
    let body = json!({"messages": user(), "max_tokens": 4, "thread": {"type": "create"}});
    let reply = post(server.address, "/v1/messages", &body);
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["details"]["error_code"], "thread_unsupported_request");
}

#[test]
fn documents_and_results_of_searches_are_text() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let content = json!([
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "body"}},
        {"type": "search_result", "title": "S", "source": "u", "content": [{"type": "text", "text": "found"}]}]);
    let body = |content: Value| json!({"max_tokens": 4, "messages": [{"role": "user", "content": content}]});
    assert_eq!(post(server.address, "/v1/messages", &body(content)).status, 200);
    let Prompt::Chat(chat) = fake.last().prompt else { panic!() };
    let text = chat.messages[0]["content"].to_string();
    assert!(["T", "body", "S", "found"].iter().all(|part| text.contains(part)), "{text}");
    let file =
        json!([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}]);
    assert_eq!(post(server.address, "/v1/messages", &body(file)).status, 400);
}

#[test]
fn items_of_earlier_responses_are_named_by_their_ids_unless_they_were_not_to_be_kept() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let ask = |body: Value| post(server.address, "/v1/responses", &body);
    for (store, status) in [(true, 200), (false, 400)] {
        let first = ask(json!({"input": "x", "store": store})).json();
        let named = json!({"type": "item_reference", "id": first["output"][0]["id"]});
        let reply = ask(json!({"input": [{"role": "user", "content": "x"}, named, {"role": "user", "content": "y"}]}));
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    let Prompt::Chat(chat) = fake.last().prompt else { panic!() };
    assert_eq!(chat.messages.len(), 1, "the last one that was answered");
}

#[test]
fn allowed_tools_say_which_may_be_called_and_the_template_is_told_of_all() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let ask = |mode: &str, name: &str| {
        let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tool(name)]}});
        let body = json!({"messages": user(), "tools": [tool("a"), tool("b")], "tool_choice": choice});
        post(server.address, "/v1/chat/completions", &body).status
    };
    assert_eq!([ask("required", "nobody"), ask("required", "b")], [400, 200]);
    let Prompt::Chat(chat) = fake.last().prompt else { panic!() };
    assert_eq!((chat.tool_choice, chat.allowed_tools), (ToolChoice::Required, Some(vec!["b".to_string()])));
    assert_eq!(chat.tools.len(), 2);
}

#[test]
fn functions_of_old_are_answered_in_their_own_shape() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let history = json!([{"role": "user", "content": "x"},
        {"role": "assistant", "content": null, "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": "sun"}]);
    let body = json!({"messages": history, "functions": [{"name": "weather"}], "function_call": {"name": "weather"}});
    let choice = post(server.address, "/v1/chat/completions", &body).json()["choices"][0].clone();
    assert_eq!(choice["message"]["function_call"]["name"], "weather", "{choice}");
    assert_eq!((&choice["finish_reason"], choice["message"].get("tool_calls")), (&json!("function_call"), None));
    let Prompt::Chat(chat) = fake.last().prompt else { panic!() };
    assert_eq!(chat.messages[1]["tool_calls"][0]["id"], chat.messages[2]["tool_call_id"]);
    assert_eq!(
        (chat.messages[2]["role"].as_str(), chat.tool_choice),
        (Some("tool"), ToolChoice::Function("weather".into()))
    );
}

/// An engine whose answers are cut.
fn cut(request: &Generate) -> Vec<Event> {
    vec![started_event(request), piece(0, Phase::Content, "Hel", request), finished_event(0, FinishReason::Length)]
}

#[test]
fn items_that_are_cut_are_incomplete_themselves() {
    let server =
        run(FakeEngine::with(|request| Ok(cut(request).into_iter().map(FakeStep::Send).collect())), settings());
    let whole = post(server.address, "/v1/responses", &json!({"input": "x"})).json();
    assert_eq!((&whole["status"], &whole["output"][0]["status"]), (&json!("incomplete"), &json!("incomplete")));
    assert_eq!(whole["output"][0]["content"][0]["text"], "Hel");
    let streamed = post(server.address, "/v1/responses", &json!({"input": "x", "stream": true}));
    let done = streamed.events().into_iter().find(|(name, _)| name == "response.output_item.done").unwrap().1;
    assert_eq!(done["item"]["status"], "incomplete");
}

#[test]
fn tools_of_free_text_are_answered_as_such_and_tools_of_servers_are_left_out_with_a_warning() {
    let server = run(FakeEngine::hello(), settings());
    let tools = json!([{"type": "custom", "name": "weather"}, {"type": "web_search"}]);
    let reply = post(server.address, "/v1/responses", &json!({"input": "x", "tools": tools}));
    assert!(reply.header("x-pumex-warning").is_some_and(|w| w.contains("web_search")));
    let kinds: Vec<Value> = reply.json()["output"].as_array().unwrap().iter().map(|i| i["type"].clone()).collect();
    assert!(kinds.contains(&json!("custom_tool_call")), "{kinds:?}");
}

#[test]
fn a_text_of_free_form_is_held_to_the_expression_of_its_format() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    let pattern = |format: Value| {
        let tools = json!([{"type": "custom", "name": "f", "format": format}]);
        let reply = post(server.address, "/v1/responses", &json!({"input": "x", "tools": tools}));
        let Prompt::Chat(chat) = fake.last().prompt else { panic!("expected a conversation") };
        let own = chat.tools[0]["function"]["parameters"]["properties"]["input"]["pattern"].clone();
        (own, reply.header("x-pumex-warning").is_some())
    };
    let regex = json!({"type": "grammar", "syntax": "regex", "definition": "a|b"});
    assert_eq!(pattern(regex), (json!("^(?:a|b)$"), false));
    let nested = json!({"type": "grammar", "grammar": {"syntax": "regex", "definition": "a"}});
    assert_eq!(pattern(nested), (json!("^(?:a)$"), false));
    assert_eq!(pattern(json!({"type": "text"})), (Value::Null, false));
    let lark = json!({"type": "grammar", "syntax": "lark", "definition": "start: \"a\""});
    assert_eq!(pattern(lark), (Value::Null, true), "what is not held to is told");
}

#[test]
fn a_prefix_stands_before_all_paths() {
    let server = run(FakeEngine::hello(), pumex_serve::http::HttpSettings { prefix: "/x".into(), ..settings() });
    assert_eq!([get(server.address, "/x/health").status, get(server.address, "/health").status], [200, 404]);
    let reply = post(server.address, "/x/v1/messages", &json!({"messages": 3, "max_tokens": 4}));
    assert_eq!((reply.status, reply.json()["type"].as_str()), (400, Some("error")));
}
