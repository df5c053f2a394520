//! Ollama's endpoints that fetch, make, copy and delete models.

use crate::client::{post, run, send, settings, ServerReply};
use crate::fake::{refusal, FakeEngine};
use pumex_serve::engine::{FetchedModel, Library, Refusal, RefusalKind};
use serde_json::{json, Map, Value};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// What was asked of it, a line each.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl Noted {
    fn note(&self, line: String) -> Result<(), Refusal> {
        self.0.lock().unwrap().push(line);
        Ok(())
    }
}

impl Library for Noted {
    fn pull(&self, name: &str, tell: &mut dyn FnMut(FetchedModel) -> bool) -> Result<(), Refusal> {
        if name == "absent" {
            return Err(refusal(RefusalKind::NotFound, "404, no such model"));
        }
        for done in [0, 50, 100] {
            assert!(tell(FetchedModel { file: "m.gguf".into(), total: 100, done }));
        }
        self.note(format!("pull {name}"))
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), Refusal> {
        self.note(format!("copy {from} {to}"))
    }

    fn create(&self, name: &str, from: &str, said: &Map<String, Value>) -> Result<(), Refusal> {
        self.note(format!("create {name} {from} {}", Value::Object(said.clone())))
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.note(format!("remove {name}"))
    }
}

fn with_folder() -> (Arc<FakeEngine>, Arc<Noted>) {
    let (fake, noted) = (FakeEngine::hello(), Arc::new(Noted::default()));
    *fake.library.lock().unwrap() = Some(noted.clone());
    (fake, noted)
}

fn delete(address: SocketAddr, name: &str) -> ServerReply {
    let body = json!({ "model": name }).to_string();
    send(address, "DELETE", "/api/delete", &[("Content-Type", "application/json")], body.as_bytes())
}

#[test]
fn a_pull_tells_how_far_it_is_line_by_line() {
    let (fake, noted) = with_folder();
    let server = run(fake.clone(), settings());
    let reply = post(server.address, "/api/pull", &json!({"model": "llama3.2:1b"}));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    let lines = reply.lines();
    let status: Vec<&str> = lines.iter().map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!((status[0], status[1], *status.last().unwrap()), ("pulling manifest", "pulling m.gguf", "success"));
    let whole = lines.iter().find(|line| line["completed"] == 100).unwrap();
    assert!(whole["total"] == 100 && whole["digest"].as_str().unwrap().starts_with("sha256:"), "{whole}");
    assert_eq!(*fake.rescans.lock().unwrap(), [false]);
    let reply = post(server.address, "/api/pull", &json!({"name": "hf.co/u/m", "stream": false}));
    assert_eq!(reply.json(), json!({"status": "success"}));
    // What goes wrong ends the lines, or is the answer.
    let reply = post(server.address, "/api/pull", &json!({"model": "absent"}));
    assert_eq!((reply.status, reply.lines().last()), (200, Some(&json!({"error": "404, no such model"}))));
    assert_eq!(post(server.address, "/api/pull", &json!({"model": "absent", "stream": false})).status, 404);
    assert_eq!(*noted.0.lock().unwrap(), ["pull llama3.2:1b", "pull hf.co/u/m"]);
}

#[test]
fn models_are_made_copied_and_deleted_by_name() {
    let (fake, noted) = with_folder();
    let server = run(fake.clone(), settings());
    let made = json!({"model": "brief", "from": "fake-1b", "system": "Be brief.", "parameters": {"top_k": 1}});
    let reply = post(server.address, "/api/create", &made);
    assert_eq!((reply.status, reply.text().trim()), (200, r#"{"status":"success"}"#));
    for (key, value) in [
        ("parameters", json!({"stop": ["x"]})),
        ("parameters", json!({"top_k": "one"})),
        ("template", json!("{{ .Prompt }}")),
        ("from", json!(null)),
    ] {
        let mut wrong = made.clone();
        wrong[key] = value;
        let reply = post(server.address, "/api/create", &wrong);
        assert!(reply.status == 400 && reply.text().contains(key), "{key}: {} {}", reply.status, reply.text());
    }
    let copy = json!({"source": "brief", "destination": "short"});
    assert_eq!(post(server.address, "/api/copy", &copy).status, 200);
    assert_eq!([delete(server.address, "fake-1b:latest").status, delete(server.address, "none").status], [200, 404]);
    let create = r#"create brief fake-1b {"system":"Be brief.","parameters":{"top_k":1}}"#;
    assert_eq!(*noted.0.lock().unwrap(), [create, "copy brief short", "remove fake-1b:latest"]);
    assert_eq!(*fake.unloaded.lock().unwrap(), ["fake-1b:latest"], "before its files go");
    assert_eq!(*fake.rescans.lock().unwrap(), [true, true, true]);
    assert_eq!(send(server.address, "DELETE", "/models?model=small", &[], b"").status, 200);
    assert_eq!(post(server.address, "/models", &json!({"model": "u/m:Q4_K_M"})).status, 200);
    let asked = || noted.0.lock().unwrap().last().cloned();
    crate::limits::until("the pull", || asked().as_deref() == Some("pull hf.co/u/m:Q4_K_M"));
}

#[test]
fn without_a_folder_no_file_comes_or_goes() {
    let server = run(FakeEngine::hello(), settings());
    for (path, body) in [
        ("/api/pull", json!({"model": "m"})),
        ("/api/create", json!({"model": "m", "from": "x"})),
        ("/api/copy", json!({"source": "a", "destination": "b"})),
    ] {
        let reply = post(server.address, path, &body);
        assert!(reply.status == 501 && reply.text().contains("--models-dir"), "{path}: {}", reply.text());
    }
    assert_eq!(delete(server.address, "fake-1b").status, 501);
}
