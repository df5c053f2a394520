//! Keys, names, other sites' pages, sockets, and the end.

use crate::client::{connect, get, limits, post, read_reply, request_text, run, send, settings};
use crate::fake::{finished_event, piece, started_event, FakeEngine, FakeStep};
use crate::limits::until;
use pumex_serve::engine::{FinishReason, Generate, Phase};
use pumex_serve::http::{Address, Cors, HttpSettings, Server};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

fn settings_with_keys() -> HttpSettings {
    HttpSettings { keys: vec!["one".into(), "two".into()], ..settings() }
}

#[test]
fn a_key_is_asked_for_before_the_body_is_read() {
    let server = run(FakeEngine::hello(), settings_with_keys());
    let mut stream = connect(server.address);
    stream
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        .unwrap();
    let reply = read_reply(&mut stream).unwrap();
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (401, &json!("authentication_error")));
    for header in [("Authorization", "Bearer one"), ("authorization", "bearer two"), ("X-Api-Key", "two")] {
        assert_eq!(send(server.address, "GET", "/v1/models", &[header], b"").status, 200, "{header:?}");
    }
    for header in
        [("Authorization", "Bearer three"), ("Authorization", "Basic one"), ("X-Api-Key", ""), ("X-Api-Key", "one ")]
    {
        // Blanks around a header's value are none of it.
        let good = header.1 == "one ";
        assert_eq!(
            send(server.address, "GET", "/v1/models", &[header], b"").status,
            if good { 200 } else { 401 },
            "{header:?}"
        );
    }
    for path in ["/health", "/live", "/ready", "/", "/status"] {
        assert_eq!(get(server.address, path).status, 200, "{path}");
    }
    for path in ["/props", "/slots", "/metrics", "/api/tags", "/nowhere"] {
        assert_eq!(get(server.address, path).status, 401, "{path}");
    }
    let reply = send(server.address, "POST", "/v1/messages", &[], b"{}");
    assert_eq!((reply.status, &reply.json()["type"]), (401, &json!("error")));
}

#[test]
fn an_address_may_try_few_wrong_keys() {
    let server = run(FakeEngine::hello(), settings_with_keys());
    let attempt = |key: &str| send(server.address, "GET", "/v1/models", &[("X-Api-Key", key)], b"").status;
    (0..10).for_each(|i| assert_eq!(attempt(&format!("wrong{i}")), 401));
    assert_eq!((attempt("wrong"), attempt("one")), (429, 200), "the right key is nobody's to bar");
    assert_eq!(get(server.address, "/health").status, 200);
}

#[test]
fn where_there_is_no_page_its_path_is_none_with_or_without_a_key() {
    let server = run(FakeEngine::hello(), HttpSettings { page: false, ..settings_with_keys() });
    assert_eq!([get(server.address, "/").status, get(server.address, "/v1/models").status], [404, 401]);
}

#[test]
fn names_and_pages_of_other_sites_are_refused() {
    let server = run(FakeEngine::hello(), settings());
    let ask = |method: &str, headers: &[(&str, &str)]| {
        send(server.address, method, "/tokenize", headers, b"{\"content\":\"a\"}").status
    };
    for host in ["localhost.evil.com", "evil.com:8080", ""] {
        assert_eq!(ask("POST", &[("Host", host)]), 403, "{host}");
    }
    for host in
        ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "host.docker.internal", "nas.local", "pumex:1"]
    {
        assert_eq!(ask("POST", &[("Host", host)]), 200, "{host}");
    }
    for origin in ["http://evil.com", "null", "http://localhost:3000", "https://localhost:3"] {
        assert_eq!(ask("POST", &[("Host", "localhost"), ("Origin", origin)]), 403, "{origin}");
        let reply = send(server.address, "OPTIONS", "/tokenize", &[("Origin", origin)], b"");
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    }
    assert_eq!(ask("POST", &[("Host", "localhost:8080"), ("Origin", "http://localhost:8080")]), 200);
}

#[test]
fn pages_that_are_allowed_are_told_so() {
    let server = run(FakeEngine::hello(), HttpSettings { cors: Cors::Localhost, ..settings() });
    let origin = "http://localhost:3000";
    let reply = send(server.address, "OPTIONS", "/v1/chat/completions", &[("Origin", origin)], b"");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
    assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE, OPTIONS"));
    assert_eq!(reply.header("access-control-allow-headers"), Some("*"));
    let reply = send(server.address, "POST", "/tokenize", &[("Origin", origin)], b"{}");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(origin)));
    assert_eq!(send(server.address, "POST", "/tokenize", &[("Origin", "http://evil.com")], b"{}").status, 403);
}

#[test]
fn pages_are_sent_once_and_may_ask_nobody_else() {
    let server = run(FakeEngine::hello(), settings());
    let reply = get(server.address, "/");
    assert!(reply.text().starts_with("<!doctype html>") && reply.header("content-security-policy").is_some());
    let tag = reply.header("etag").unwrap();
    let again = send(server.address, "GET", "/", &[("If-None-Match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_process_takes_is_among_the_metrics() {
    let server = run(FakeEngine::hello(), settings());
    let text = get(server.address, "/metrics").text();
    for name in ["resident_memory_bytes", "anonymous_memory_bytes", "open_fds", "threads", "start_time_seconds"] {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("process_{name} ")));
        assert!(line.is_some_and(|value| value.parse::<f64>().unwrap() >= 1.0), "{name}: {line:?}");
    }
    let adapters = "vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"a\",waiting_lora_adapters=\"\"} ";
    assert!(text.contains(adapters), "{text}");
}

#[test]
fn several_addresses_and_a_path_are_served() {
    let path = std::env::temp_dir().join(format!("pumex-{}.sock", std::process::id()));
    let hosts = vec!["127.0.0.1".into(), "127.0.0.2".into(), path.display().to_string()];
    let mut server = run(FakeEngine::hello(), HttpSettings { hosts, ..settings() });
    for address in &server.addresses {
        let reply = match address {
            Address::Tcp { address, .. } => get(*address, "/health"),
            Address::Unix(path) => {
                let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
                stream.write_all(&request_text("GET", "/health", &[], b"")).unwrap();
                read_reply(&mut stream).unwrap()
            }
        };
        assert_eq!(reply.status, 200, "{address}");
    }
    server.stopper.stop();
    server.join();
    assert!(!path.exists());
}

#[test]
fn an_open_address_without_a_key_is_refused() {
    let open = HttpSettings { hosts: vec!["0.0.0.0".into()], ..settings() };
    assert!(Server::bind(FakeEngine::hello(), open.clone()).is_err());
    assert!(Server::bind(FakeEngine::hello(), HttpSettings { keys: vec!["k".into()], ..open }).is_ok());
}

/// An answer that takes a while.
fn slow(time: Duration) -> std::sync::Arc<FakeEngine> {
    FakeEngine::with(move |request: &Generate| {
        Ok(vec![
            FakeStep::Send(started_event(request)),
            FakeStep::Send(piece(0, Phase::Content, "a", request)),
            FakeStep::Wait(time),
            FakeStep::Send(piece(0, Phase::Content, "b", request)),
            FakeStep::Send(finished_event(0, FinishReason::End)),
        ])
    })
}

#[test]
fn a_stop_waits_for_what_runs_and_refuses_what_comes() {
    let fake = slow(Duration::from_millis(300));
    let mut server = run(
        fake.clone(),
        HttpSettings {
            limits: pumex_serve::http::ConnectionLimits { drain: Duration::from_secs(20), ..limits() },
            ..settings()
        },
    );
    let address = server.address;
    let client = std::thread::spawn(move || post(address, "/completion", &json!({"prompt": "x"})));
    until("the request", || !fake.model.seen.lock().unwrap().is_empty());
    server.stopper.stop();
    until("the drain", || fake.drained.load(std::sync::atomic::Ordering::SeqCst));
    let reply = get(address, "/health");
    assert_eq!((reply.status, reply.header("connection")), (503, Some("close")));
    assert_eq!(post(address, "/completion", &json!({"prompt": "x"})).status, 503);
    assert_eq!(client.join().unwrap().json()["content"], "ab");
    server.join();
}

#[test]
fn a_stop_ends_what_takes_too_long_with_an_error() {
    let fake = slow(Duration::from_secs(600));
    let mut server = run(fake.clone(), HttpSettings { limits: limits(), ..settings() });
    let address = server.address;
    let client = std::thread::spawn(move || post(address, "/completion", &json!({"prompt": "x", "stream": true})));
    until("the request", || !fake.model.seen.lock().unwrap().is_empty());
    server.stopper.stop();
    server.join();
    assert!(client.join().unwrap().text().contains("the server stops"));
}

#[test]
fn a_second_stop_ends_at_once() {
    let fake = slow(Duration::from_secs(600));
    let drain = Duration::from_secs(600);
    let mut server = run(
        fake.clone(),
        HttpSettings { limits: pumex_serve::http::ConnectionLimits { drain, ..limits() }, ..settings() },
    );
    let mut client = connect(server.address);
    client.write_all(&request_text("POST", "/completion", &[], b"{\"prompt\":\"x\"}")).unwrap();
    until("the request", || !fake.model.seen.lock().unwrap().is_empty());
    server.stopper.stop();
    server.stopper.stop();
    server.join();
    assert!(read_reply(&mut client).is_none());
}

#[test]
fn a_request_names_one_host() {
    let server = run(FakeEngine::hello(), settings());
    let ask = |head: &str| {
        let mut stream = connect(server.address);
        stream.write_all(format!("GET /v1/models HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
        read_reply(&mut stream).unwrap().status
    };
    assert_eq!(ask("Host: localhost\r\n"), 200);
    assert_eq!(ask("Host: localhost\r\nHost: localhost\r\n"), 400);
    assert_eq!(ask(""), 400);
}

#[test]
fn a_connection_whose_body_was_not_read_is_closed() {
    let server = run(FakeEngine::hello(), settings_with_keys());
    let mut stream = connect(server.address);
    let hidden = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer one\r\n\r\n";
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", hidden.len());
    stream.write_all(format!("{head}{hidden}").as_bytes()).unwrap();
    assert_eq!(read_reply(&mut stream).unwrap().status, 401);
    assert!(read_reply(&mut stream).is_none(), "the body is no request");
    // One that is read leaves the connection open.
    let mut stream = connect(server.address);
    let body = r#"{"prompt": "a", "max_tokens": 1}"#;
    for _ in 0..2 {
        let auth = ("Authorization", "Bearer one");
        stream.write_all(&request_text("POST", "/v1/completions", &[auth], body.as_bytes())).unwrap();
        assert_eq!(read_reply(&mut stream).unwrap().status, 200);
    }
}
