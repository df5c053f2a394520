//! Fields of requests that other servers have, too.

use super::process::{request, Process};
use super::{exact, greedy, load, message, run, settings};
use pumex::gguf::Gguf;
use pumex::sample::logprobs;
use pumex::text::Tokenizer;
use pumex_serve::engine::{Chat, FinishReason, Generate, Model, Prompt, RefusalKind, ToolChoice};
use serde_json::json;

/// Chances of a text's tokens, each behind those before it.
fn chances(text: &str) -> Vec<(u32, Option<f32>)> {
    let gguf = Gguf::open(&crate::util::demo_path()).unwrap();
    let options = pumex::engine::Options { n_seqs: 1, n_ctx: Some(256), ..exact(1).engine };
    let mut runner = pumex::engine::load(&gguf, &options, &mut |_, _| ()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let ids = tokenizer.encode(text, tokenizer.add_bos(), true).unwrap();
    let rows = pumex::conversation::rows(&ids, 0, |_| pumex::step::RowOutput::Logits);
    let output = runner.run(&rows, pumex::step::Want::Logits).unwrap();
    let n_vocab = runner.n_vocab();
    let behind = |at: usize| {
        let row = &output.logits[(at - 1) * n_vocab..at * n_vocab];
        logprobs(row, ids[at], 0).unwrap().logprob as f32
    };
    (0..ids.len()).map(|at| (ids[at], (at > 0).then(|| behind(at)))).collect()
}

#[test]
fn a_prompt_s_chances_are_those_of_its_logits_however_steps_fall() {
    let model = load(exact(2));
    let text =
        "And it came to pass in those days, that there went out a decree from Caesar Augustus, that all the world";
    let truth = chances(text);
    for (tokens, n) in [(0, 1), (3, 1), (2, 2)] {
        // What was computed before has no logits any more.
        let found = run(&model, Generate { prompt_logprobs: Some(2), n, ..greedy(text, tokens) });
        assert_eq!(found.prompt_told.len(), truth.len());
        for (a, b) in found.prompt_told.iter().zip(&truth) {
            let near = match (a.1, b.1) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-4,
                (None, None) => true,
                _ => false,
            };
            assert!(a.0 == b.0 && near, "{a:?} {b:?}");
        }
    }
    assert!(run(&model, greedy(text, 1)).prompt_told.is_empty());
}

#[test]
fn ends_come_where_a_request_wants_them() {
    let model = load(settings(2));
    let usual = run(&model, greedy("And it came to pass", 40));
    let stop = usual.answers[0].ids[5];
    let first = usual.answers[0].ids.iter().position(|id| *id == stop).unwrap();
    let found = run(&model, Generate { stop_ids: vec![stop], ..greedy("And it came to pass", 40) });
    assert_eq!((found.finish().completion_tokens, &found.finish().reason), (first + 1, &FinishReason::End));
    let later = Generate { stop_ids: vec![stop], min_tokens: 20, ..greedy("And it came to pass", 40) };
    assert!(run(&model, later).finish().completion_tokens >= 20);
    let wrong = Generate { stop_ids: vec![u32::MAX], ..greedy("a", 4) };
    let refusal = model.generate(wrong, tokio::sync::mpsc::channel(1).0).unwrap_err();
    assert_eq!(refusal.field.as_deref(), Some("stop_token_ids"));
}

#[test]
fn a_context_of_a_request_s_own_bounds_prompt_and_answer_together() {
    let model = load(settings(2));
    let usual = run(&model, Generate { max_tokens: None, context: Some(32), ..greedy("And it came to pass", 40) });
    assert_eq!(usual.finish().prompt_tokens + usual.finish().completion_tokens, 32);
    let ask = |context| {
        let request = Generate { context: Some(context), ..greedy("And it came to pass", 4) };
        model.generate(request, tokio::sync::mpsc::channel(1).0).unwrap_err().kind
    };
    assert_eq!([ask(3), ask(100_000)], [RefusalKind::ContextExceeded, RefusalKind::Invalid]);
}

#[test]
fn a_tool_that_cannot_be_held_to_leaves_the_others_held_and_is_told() {
    let mut wide = settings(1);
    wide.engine.n_ctx = Some(2048);
    wide.chat_template = Some(super::text::CALLS.into());
    let model = load(wide);
    let tool =
        |name: &str, parameters| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let odd =
        json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "(?!a)b"}}, "required": ["x"]});
    let good = json!({"type": "object", "properties": {"n": {"enum": [3]}}, "required": ["n"]});
    let Prompt::Chat(chat) = message("go", 1).prompt else { panic!() };
    let chat = Chat {
        tools: vec![tool("good", good), tool("odd", odd)],
        tool_choice: ToolChoice::Required,
        allowed_tools: Some(vec!["good".into()]),
        ..chat
    };
    let request = Generate { prompt: Prompt::Chat(chat.clone()), ..message("", 300) };
    let found = run(&model, request);
    assert!(found.answers[0].calls.iter().all(|(name, _)| name == "good"), "{found:?}");
    let both = Chat { allowed_tools: None, parallel_tool_calls: Some(false), ..chat };
    let (events, _all) = tokio::sync::mpsc::channel(4096);
    let told = model.generate(Generate { prompt: Prompt::Chat(both), ..message("", 4) }, events).unwrap();
    assert!(told.len() == 1 && told[0].contains("\"odd\"") && told[0].contains("pattern"), "{told:?}");
}

#[test]
fn a_model_whose_template_knows_no_functions_is_told_of_them_and_held_to_them() {
    let mut wide = settings(1);
    wide.engine.n_ctx = Some(1024);
    let model = load(wide);
    let parameters = json!({"type": "object", "properties": {"n": {"enum": [3]}}, "required": ["n"]});
    let tools = vec![json!({"type": "function", "function": {"name": "get", "parameters": parameters}})];
    let Prompt::Chat(chat) = message("go", 1).prompt else { panic!() };
    let without = model.render(&chat).unwrap().0;
    let chat = Chat { tools, tool_choice: ToolChoice::Function("get".into()), ..chat };
    let told = model.render(&chat).unwrap().0;
    assert!(told.contains("\"get\"") && !without.contains("get") && told.contains("go"), "{told}");
    let found = run(&model, Generate { prompt: Prompt::Chat(chat), ..message("", 300) });
    assert_eq!(found.answers[0].calls.len(), 1, "{found:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&found.answers[0].calls[0].1).unwrap(), json!({"n": 3}));
}

/// What a server answers.
fn post_body(server: &Process, bytes: &[u8]) -> serde_json::Value {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn flags_of_a_server_say_what_holds_where_a_request_does_not() {
    let flags =
        ["-c", "512", "--no-kv-unified", "--no-prefill-assistant", "--grammar", "root ::= \"xyz\"", "--seed", "7"];
    let server = Process::start(0, &flags);
    let props = post_body(&server, b"GET /props HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let settings = &props["default_generation_settings"];
    assert_eq!((&settings["n_ctx"], &settings["params"]["seed"]), (&json!(128), &json!(7)), "{props}");
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let prompt =
        post_body(&server, &request("/apply-template", &json!({ "messages": messages })))["prompt"].to_string();
    let opened = json!({"messages": messages, "add_generation_prompt": true});
    assert_eq!(prompt, post_body(&server, &request("/apply-template", &opened))["prompt"].to_string());
    let answer = post_body(&server, &request("/v1/completions", &json!({"prompt": "a"})));
    assert_eq!(answer["choices"][0]["text"], "xyz");
}
