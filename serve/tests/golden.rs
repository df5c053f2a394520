//! Every endpoint, streaming and not, against what is stored in `tests/golden/`: a list of requests with their answers in each file.
//! `PUMEX_BLESS=1 cargo test -p pumex-serve golden` writes the answers anew.

use crate::client::{run, send, settings};
use crate::fake::FakeEngine;
use serde_json::{json, Value};

/// Replaces what differs from run to run: names of answers, times, and rates by the clock.
fn normalize_answer(value: &mut Value) {
    match value {
        Value::String(text) => {
            let prefixes = ["chatcmpl-", "cmpl-", "resp_", "msg_", "fc_", "rs_", "call_", "toolu_", "req_", "pumex-"];
            if let Some(prefix) = prefixes.iter().find(|p| text.starts_with(*p)) {
                *text = format!("{prefix}*");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_answer),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let varies = [
                    "created",
                    "created_at",
                    "modified_at",
                    "expires_at",
                    "total_duration",
                    "load_duration",
                    "save_ms",
                ];
                if varies.contains(&key.as_str()) && !value.is_null() {
                    *value = "*".into();
                } else {
                    normalize_answer(value);
                }
            }
        }
        _ => {}
    }
}

fn answer(address: std::net::SocketAddr, case: &Value) -> Value {
    let body = case.get("body").map_or(String::new(), Value::to_string);
    let (method, path) = (case["method"].as_str().unwrap_or("POST"), case["path"].as_str().unwrap());
    let reply = send(address, method, path, &[("Content-Type", "application/json")], body.as_bytes());
    let media = reply.header("content-type").unwrap_or_default().to_string();
    let mut content = match media.as_str() {
        "text/event-stream" => {
            let event = |(name, data): (String, Value)| {
                if name.is_empty() {
                    data
                } else {
                    json!({"event": name, "data": data})
                }
            };
            let mut events: Vec<Value> = reply.events().into_iter().map(event).collect();
            // Answers to several prompts come as they may.
            events.sort_by_key(|e| {
                [&e["choices"][0]["index"], &e["index"]].iter().find_map(|i| i.as_u64()).unwrap_or(u64::MAX)
            });
            events.into()
        }
        "application/x-ndjson" => reply.lines().into(),
        media if media.starts_with("application/json") => reply.json(),
        // What the process takes, where the system tells it, is never the same, nor is the time.
        _ => {
            let changes = |line: &str| line.contains("process_") || line.starts_with("vllm:lora_requests_info");
            reply.text().lines().filter(|line| !changes(line)).map(Value::from).collect()
        }
    };
    normalize_answer(&mut content);
    json!({"status": reply.status, "type": media, "content": content})
}

fn check(name: &str) {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut cases: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let bless = std::env::var_os("PUMEX_BLESS").is_some();
    for case in cases.as_array_mut().unwrap() {
        let server = run(FakeEngine::hello(), settings());
        let found = answer(server.address, case);
        if bless {
            case["answer"] = found;
        } else {
            assert_eq!(found, case["answer"], "{name}: {} {}", case["path"], case["body"]);
        }
    }
    if bless {
        std::fs::write(path, format!("{:#}\n", cases)).unwrap();
    }
}

macro_rules! goldens {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*
    };
}

goldens!(anthropic, chat, native, ollama, openai, responses);
