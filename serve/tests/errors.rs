//! Bad requests: each with its status, type and field, in the API's own shape.

use crate::client::{get, post, run, send, settings};
use crate::fake::{refusal, FakeEngine, FakeStep};
use pumex_serve::engine::{Event, Health, Refusal, RefusalKind};
use pumex_serve::http::HttpSettings;
use serde_json::{json, Value};

/// Endpoint, body, status, type (Anthropic: its own), field.
fn table() -> Vec<(&'static str, Value, u16, &'static str, Option<&'static str>)> {
    const CHAT: &str = "/v1/chat/completions";
    const BAD: &str = "invalid_request_error";
    let user = json!([{"role": "user", "content": "x"}]);
    let chat = |name: &str, value: Value| json!({"messages": [{"role": "user", "content": "x"}], name: value});
    let image =
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]);
    let mine = json!({"role": "assistant", "content": "x"});
    vec![
        (CHAT, json!([]), 400, BAD, None),
        (CHAT, json!({}), 400, BAD, Some("messages")),
        (CHAT, json!({"messages": "x"}), 400, BAD, Some("messages")),
        (CHAT, json!({"messages": [1]}), 400, BAD, Some("messages[0]")),
        (CHAT, json!({"messages": [{}]}), 400, BAD, Some("messages[0].role")),
        (CHAT, json!({"messages": [{"role": "user"}]}), 400, BAD, Some("messages[0].content")),
        (CHAT, json!({"messages": [{"role": "user", "content": 1}]}), 400, BAD, Some("messages[0].content")),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": [{"type": "x"}]}]}),
            400,
            BAD,
            Some("messages[0].content[0].type"),
        ),
        (CHAT, json!({ "messages": image }), 400, BAD, Some("messages[0].content[0].type")),
        (CHAT, json!({"messages": [mine, mine]}), 400, BAD, Some("messages[1]")),
        (
            CHAT,
            json!({"messages": user, "add_generation_prompt": true, "continue_final_message": true}),
            400,
            BAD,
            Some("continue_final_message"),
        ),
        (CHAT, chat("stream", json!("yes")), 400, BAD, Some("stream")),
        (CHAT, chat("stream_options", json!({"include_usage": 1})), 400, BAD, Some("stream_options.include_usage")),
        (CHAT, chat("max_tokens", json!("5")), 400, BAD, Some("max_tokens")),
        (CHAT, chat("temperature", json!("hot")), 400, BAD, Some("temperature")),
        (CHAT, chat("n", json!(0)), 400, BAD, Some("n")),
        (CHAT, chat("top_logprobs", json!(3)), 400, BAD, Some("top_logprobs")),
        (CHAT, chat("tools", json!([{"type": "function"}])), 400, BAD, Some("tools[0].function")),
        (CHAT, chat("tools", json!([{"function": {"name": ""}}])), 400, BAD, Some("tools[0].function.name")),
        (CHAT, chat("tool_choice", json!("required")), 400, BAD, Some("tool_choice")),
        (CHAT, chat("tool_choice", json!("sometimes")), 400, BAD, Some("tool_choice")),
        (CHAT, chat("tool_choice", json!({"function": {"name": "f"}})), 400, BAD, Some("tool_choice")),
        (CHAT, chat("response_format", json!({"type": "xml"})), 400, BAD, Some("response_format.type")),
        (CHAT, chat("response_format", json!({"type": "json_schema"})), 400, BAD, Some("response_format.json_schema")),
        (
            CHAT,
            chat("chat_template_kwargs", json!({"enable_thinking": "no"})),
            400,
            BAD,
            Some("chat_template_kwargs.enable_thinking"),
        ),
        (CHAT, chat("reasoning_format", json!("loud")), 400, BAD, Some("reasoning_format")),
        (CHAT, chat("model", json!(5)), 400, BAD, Some("model")),
        ("/v1/completions", json!({}), 400, BAD, Some("prompt")),
        ("/v1/completions", json!({"prompt": "x", "logprobs": 21}), 400, BAD, Some("logprobs")),
        ("/v1/completions", json!({"prompt": "x", "suffix": "y"}), 400, BAD, Some("suffix")),
        ("/completion", json!({"prompt": []}), 400, BAD, Some("prompt")),
        ("/completion", json!({"prompt": {"prompt_string": "x", "multimodal_data": ["a"]}}), 400, BAD, Some("prompt")),
        ("/completion", json!({"prompt": "x", "n_probs": -1}), 400, BAD, Some("n_probs")),
        ("/completion", json!({"prompt": "x", "response_fields": 1}), 400, BAD, Some("response_fields")),
        ("/infill", json!({"input_prefix": "x"}), 400, BAD, Some("input_suffix")),
        (
            "/infill",
            json!({"input_prefix": "x", "input_suffix": "y", "input_extra": [{}]}),
            400,
            BAD,
            Some("input_extra[0].text"),
        ),
        ("/tokenize", json!({"content": 5}), 400, BAD, Some("content")),
        ("/detokenize", json!({"tokens": ["x"]}), 400, BAD, Some("tokens[0]")),
        ("/detokenize", json!({"tokens": [300]}), 400, BAD, None),
        ("/rerank", json!({"query": "q"}), 400, BAD, Some("documents")),
        ("/rerank", json!({"query": "q", "documents": []}), 400, BAD, Some("documents")),
        ("/rerank", json!({"query": "q", "documents": [1]}), 400, BAD, Some("documents[0]")),
        ("/rerank", json!({"documents": ["x"]}), 400, BAD, Some("query")),
        ("/v1/embeddings", json!({"input": []}), 400, BAD, Some("input")),
        ("/v1/embeddings", json!({"input": "x", "encoding_format": "hex"}), 400, BAD, Some("encoding_format")),
        ("/v1/embeddings", json!({"input": "x", "dimensions": 9}), 400, BAD, Some("dimensions")),
        ("/v1/responses", json!({}), 400, BAD, Some("input")),
        ("/v1/responses", json!({"input": [{"type": "item_reference"}]}), 400, BAD, Some("input[0].id")),
        ("/v1/responses", json!({"input": "x", "previous_response_id": "r"}), 400, BAD, Some("previous_response_id")),
        ("/v1/messages", json!({"messages": []}), 400, BAD, None),
        ("/v1/messages", json!({"max_tokens": 5, "messages": [{"role": "robot"}]}), 400, BAD, None),
        ("/api/chat", json!({"messages": [{"role": "user", "images": ["x"]}]}), 400, "", None),
        ("/api/generate", json!({"prompt": "x", "format": "xml"}), 400, "", None),
        ("/slots/x?action=erase", json!({}), 400, BAD, None),
        ("/lora-adapters", json!({}), 400, BAD, None),
        ("/nowhere", json!({}), 404, "not_found_error", None),
        ("/v1/models", json!({}), 405, BAD, None),
    ]
}

#[test]
fn bad_requests_are_refused_in_the_shape_of_their_api() {
    let server = run(FakeEngine::hello(), settings());
    for (path, body, status, kind, field) in table() {
        let reply = post(server.address, path, &body);
        let (text, error) = (reply.text(), reply.json());
        assert_eq!(reply.status, status, "{path} {body}: {text}");
        match path {
            p if p.starts_with("/api/") => assert!(error["error"].is_string(), "{path}: {text}"),
            p if p.starts_with("/v1/messages") => {
                assert_eq!(
                    (&error["type"], &error["error"]["type"]),
                    (&json!("error"), &json!(kind)),
                    "{path}: {text}"
                );
            }
            _ => {
                let error = &error["error"];
                assert_eq!((&error["type"], &error["code"]), (&json!(kind), &json!(status)), "{path} {body}: {text}");
                assert_eq!(error["param"], json!(field), "{path} {body}: {text}");
            }
        }
    }
}

#[test]
fn bodies_that_are_no_strict_json_are_refused() {
    let server = run(FakeEngine::hello(), settings());
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    let bodies: &[&[u8]] = &[
        b"{",
        b"",
        b"{\"a\":1,\"a\":2}",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":NaN}",
        b"{\"a\":\"\\ud800\"}",
        deep.as_bytes(),
    ];
    for body in bodies {
        let reply = send(server.address, "POST", "/v1/chat/completions", &[], body);
        assert_eq!((reply.status, &reply.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
}

#[test]
fn the_engine_s_refusals_come_with_status_counts_and_a_time_to_wait() {
    let over = Refusal {
        tokens: Some((5000, 4096)),
        ..refusal(RefusalKind::ContextExceeded, "exceeds the available context size")
    };
    let table = [
        (over, 400, "exceed_context_size_error", None),
        (refusal(RefusalKind::Busy, "the queue is full"), 429, "rate_limit_error", Some("1")),
        (refusal(RefusalKind::Unavailable, "loading"), 503, "unavailable_error", Some("5")),
        (refusal(RefusalKind::Failed, "device lost"), 500, "server_error", None),
    ];
    for (why, status, kind, wait) in table {
        let fake = FakeEngine::with(move |_| Err(why.clone()));
        let server = run(fake, settings());
        for stream in [false, true] {
            let body = json!({"messages": [{"role": "user", "content": "x"}], "stream": stream});
            let reply = post(server.address, "/v1/chat/completions", &body);
            assert_eq!((reply.status, &reply.json()["error"]["type"]), (status, &json!(kind)));
            assert_eq!(reply.header("retry-after"), wait);
            if status == 400 {
                assert_eq!(reply.json()["error"]["n_prompt_tokens"], 5000);
                assert_eq!(reply.json()["error"]["n_ctx"], 4096);
            }
        }
    }
}

#[test]
fn streams_that_break_off_say_so_and_never_end_well() {
    let fail = |request: &pumex_serve::engine::Generate| {
        let events = [crate::fake::started_event(request), Event::Failed(refusal(RefusalKind::Failed, "device lost"))];
        Ok(events.into_iter().map(FakeStep::Send).collect())
    };
    let server = run(FakeEngine::with(fail), settings());
    let chat = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "stream": true, "prompt": "x", "input": "x"});
    let kept = json!({"max_output_tokens": 5, "stream": true, "input": "x"});
    for path in ["/v1/chat/completions", "/v1/completions", "/completion", "/v1/messages", "/v1/responses", "/api/chat"]
    {
        // Where a prompt is one that OpenAI keeps.
        let chat = if path == "/v1/responses" { &kept } else { &chat };
        let reply = post(server.address, path, chat);
        let text = reply.text();
        assert!(reply.status == 200 && text.contains("device lost"), "{path}: {text}");
        let good = ["[DONE]", "message_stop", "response.completed", "\"done\":true"];
        assert!(good.iter().all(|g| !text.contains(g)), "{path}: {text}");
        let whole = post(server.address, path, &{
            let mut whole = chat.clone();
            whole["stream"] = false.into();
            whole
        });
        assert_eq!(whole.status, 500, "{path}");
    }
}

#[test]
fn what_is_switched_off_is_said_to_be() {
    let server = run(FakeEngine::hello(), HttpSettings { slots: false, metrics: false, page: false, ..settings() });
    for path in ["/slots", "/metrics"] {
        let reply = get(server.address, path);
        assert_eq!((reply.status, &reply.json()["error"]["type"]), (501, &json!("not_supported_error")), "{path}");
    }
    assert_eq!(get(server.address, "/").status, 404);
}

#[test]
fn a_model_that_loads_is_unavailable_and_the_process_lives() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), settings());
    for (health, status, live) in
        [(Health::Loading, 503, 200), (Health::Failed("device lost".into()), 503, 503), (Health::Ok, 200, 200)]
    {
        *fake.health.lock().unwrap() = health;
        assert_eq!(get(server.address, "/health").status, status);
        assert_eq!(get(server.address, "/ready").status, status);
        assert_eq!(get(server.address, "/live").status, live);
        let chat =
            post(server.address, "/v1/chat/completions", &json!({"messages": [{"role": "user", "content": "x"}]}));
        assert_eq!(chat.status, status);
    }
}

#[test]
fn a_panic_is_a_fault_of_one_request_alone() {
    let panics = |request: &pumex_serve::engine::Generate| match request.n {
        1 => panic!("a test's"),
        _ => Ok(vec![FakeStep::Send(crate::fake::started_event(request))]),
    };
    let server = run(FakeEngine::with(panics), settings());
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    assert_eq!(post(server.address, "/v1/chat/completions", &body).status, 500);
    assert_eq!(get(server.address, "/health").status, 200);
}
