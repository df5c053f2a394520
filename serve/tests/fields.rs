//! What the documents say of fields is what the server does with them.

use crate::client::{post, run, settings};
use crate::fake::FakeEngine;
use serde_json::{json, Value};

/// Paths, fields and what becomes of them, of a document.
fn rows(document: &str) -> Vec<(String, String, String)> {
    let file = format!("{}/../docs/fields-{document}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut path = String::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            path = name.to_string();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, name, what, ..] = cells[..] {
            if let Some(name) = name.strip_prefix('`').and_then(|n| n.strip_suffix('`')) {
                rows.push((path.clone(), name.to_string(), what.to_string()));
            }
        }
    }
    rows
}

/// A body that is right.
fn body(path: &str) -> Value {
    let messages = json!([{"role": "user", "content": "x"}]);
    match path {
        "/v1/chat/completions" | "/api/chat" => json!({"model": "m", "messages": messages}),
        "/v1/messages" => json!({"messages": messages, "max_tokens": 4}),
        "/v1/responses" | "/v1/embeddings" | "/api/embed" => json!({"model": "m", "input": "x"}),
        _ => json!({"model": "m", "prompt": "x"}),
    }
}

#[test]
fn fields_are_read_or_refused_as_the_documents_say() {
    let server = run(FakeEngine::takes(true, true), settings());
    let mut wrong = Vec::new();
    for document in ["openai", "anthropic", "ollama"] {
        let rows = rows(document);
        assert!(rows.len() > 10, "{document}");
        for (path, name, what) in rows.iter().filter(|(_, _, what)| what != "nothing to do") {
            // No field is of this form.
            let mut asked = body(path);
            asked[name] = json!([[{ "no": [] }]]);
            let reply = post(server.address, path, &asked);
            let text = reply.text();
            let named = text.contains(&format!("/{name}"));
            let refused = text.contains("is not supported");
            if reply.status != 400 || !named || refused != (what == "refused") {
                wrong.push(format!("{path}: {name} is {what}: {} {text:.200}", reply.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
