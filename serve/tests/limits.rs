//! Sizes, times, and clients that do not keep to them.

use crate::client::{connect, get, limits, post, read_reply, request_text, run, send, settings};
use crate::fake::{piece, started_event, FakeEngine, FakeStep};
use pumex_serve::engine::{Generate, Phase};
use pumex_serve::http::{ConnectionLimits, HttpSettings};
use serde_json::json;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn short() -> HttpSettings {
    HttpSettings { limits: limits(), ..settings() }
}

/// Waits until something holds, and fails after a while.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An answer that never ends.
fn endless(request: &Generate) -> Result<Vec<FakeStep>, pumex_serve::engine::Refusal> {
    let begin = [started_event(request), piece(0, Phase::Content, "x", request)].into_iter().map(FakeStep::Send);
    Ok(begin.chain([FakeStep::Wait(Duration::from_secs(600))]).collect())
}

#[test]
fn requests_that_are_too_long_are_refused() {
    let server =
        run(FakeEngine::hello(), HttpSettings { limits: ConnectionLimits { body: 1000, ..limits() }, ..settings() });
    let (long, path) = ("x".repeat(20_000), format!("/{}", "x".repeat(9000)));
    assert_eq!(get(server.address, &path).status, 414);
    assert_eq!(send(server.address, "GET", "/health", &[("X-Long", &long)], b"").status, 431);
    let reply = send(server.address, "POST", "/tokenize", &[], format!("{{\"content\":\"{long}\"}}").as_bytes());
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    // In chunks, the length is known only when it is too long.
    let mut stream = connect(server.address);
    let chunk = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000));
    let head = request_text("POST", "/tokenize", &[("Transfer-Encoding", "chunked")], b"");
    stream.write_all(&[head, chunk.into_bytes()].concat()).unwrap();
    assert_eq!(read_reply(&mut stream).unwrap().status, 413);
}

#[test]
fn a_body_in_chunks_is_read_and_closes_the_connection() {
    let server = run(FakeEngine::hello(), settings());
    let mut stream = connect(server.address);
    let head = request_text("POST", "/tokenize", &[("Transfer-Encoding", "chunked")], b"");
    stream.write_all(&[head.as_slice(), b"8\r\n{\"conten\r\n7\r\nt\":\"a\"}\r\n0\r\n\r\n"].concat()).unwrap();
    let reply = read_reply(&mut stream).unwrap();
    assert_eq!((reply.status, reply.json(), reply.header("connection")), (200, json!({"tokens": [97]}), Some("close")));
}

#[test]
fn half_headers_are_cut_off_in_time_though_bytes_keep_coming() {
    let server = run(FakeEngine::hello(), short());
    let mut stream = connect(server.address);
    stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let begun = Instant::now();
    // Each byte on its own is in time; all together they are not.
    while begun.elapsed() < Duration::from_secs(10) && stream.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "the connection was never cut");
}

#[test]
fn a_connection_that_asks_nothing_is_closed() {
    let server = run(FakeEngine::hello(), short());
    let mut stream = connect(server.address);
    assert!(stream.read(&mut [0; 100]).is_ok_and(|n| n == 0));
    // Between requests it stays for longer than headers may take.
    let mut stream = connect(server.address);
    for _ in 0..2 {
        stream.write_all(&request_text("GET", "/health", &[], b"")).unwrap();
        assert_eq!(read_reply(&mut stream).unwrap().status, 200);
        std::thread::sleep(Duration::from_millis(400));
    }
}

#[test]
fn half_a_body_is_refused_in_time() {
    let server = run(FakeEngine::hello(), short());
    let mut stream = connect(server.address);
    stream.write_all(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"content\"").unwrap();
    let reply = read_reply(&mut stream).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (408, Some("close")));
}

#[test]
fn a_client_that_goes_away_cancels_its_request() {
    for stream in [true, false] {
        let fake = FakeEngine::with(endless);
        let server = run(fake.clone(), settings());
        let mut client = connect(server.address);
        let body = json!({"messages": [{"role": "user", "content": "x"}], "stream": stream}).to_string();
        client.write_all(&request_text("POST", "/v1/chat/completions", &[], body.as_bytes())).unwrap();
        until("the request", || !fake.model.seen.lock().unwrap().is_empty());
        drop(client);
        until("its end", || fake.model.cancelled.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    // More than all buffers between hold.
    let flood = |request: &Generate| {
        let long = "x".repeat(1 << 20);
        let pieces = (0..64).map(|_| {
            FakeStep::Send(pumex_serve::engine::Event::Piece {
                answer: 0,
                phase: Phase::Content,
                text: long.clone(),
                tokens: Vec::new(),
            })
        });
        Ok(std::iter::once(FakeStep::Send(started_event(request)))
            .chain(pieces)
            .chain([FakeStep::Wait(Duration::from_secs(600))])
            .collect())
    };
    let fake = FakeEngine::with(flood);
    let server = run(fake.clone(), short());
    let mut client = connect(server.address);
    let body = json!({"prompt": "x", "stream": true}).to_string();
    client.write_all(&request_text("POST", "/completion", &[], body.as_bytes())).unwrap();
    until("the end of the request", || fake.model.cancelled.load(Ordering::SeqCst) == 1);
}

#[test]
fn silent_streams_say_that_they_live() {
    let fake = FakeEngine::with(endless);
    let server = run(
        fake,
        HttpSettings { limits: ConnectionLimits { ping: Duration::from_millis(20), ..limits() }, ..settings() },
    );
    let mut client = connect(server.address);
    let body = json!({"prompt": "x", "stream": true}).to_string();
    client.write_all(&request_text("POST", "/completion", &[], body.as_bytes())).unwrap();
    let mut text = String::new();
    while text.matches(": ping\n\n").count() < 3 {
        let mut bytes = [0; 1000];
        let n = client.read(&mut bytes).unwrap();
        assert!(n > 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
    }
}

#[test]
fn only_so_many_connections_are_served_at_a_time() {
    let limits = ConnectionLimits { connections: 2, ..ConnectionLimits::default() };
    let server = run(FakeEngine::with(endless), HttpSettings { limits, ..settings() });
    let ask = |path: &str, body: &[u8]| {
        let mut stream = connect(server.address);
        let method = if body.is_empty() { "GET" } else { "POST" };
        stream.write_all(&request_text(method, path, &[], body)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    // Those that ask nothing make room for those that do.
    let idle: Vec<_> = (0..2).map(|_| connect(server.address)).collect();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(read_reply(&mut ask("/health", b"")).unwrap().status, 200);
    drop(idle);
    let at_work: Vec<_> = (0..2).map(|_| ask("/completion", br#"{"prompt": "a"}"#)).collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(read_reply(&mut ask("/health", b"")).unwrap().status, 503, "all places are taken");
    drop(at_work);
    until("there is a place again", || read_reply(&mut ask("/health", b"")).is_some_and(|reply| reply.status == 200));
}

#[test]
fn many_clients_at_once_each_get_their_own_answer() {
    // Each prompt has a word of its own, which its answer repeats.
    let echo = |request: &Generate| {
        let pumex_serve::engine::Prompt::Parts(parts) = &request.prompt else { panic!("no text") };
        let pumex_serve::engine::PromptPart::Text(text) = &parts[0] else { panic!("no text") };
        let end = crate::fake::finished_event(0, pumex_serve::engine::FinishReason::End);
        Ok([started_event(request), piece(0, Phase::Content, text, request), end]
            .into_iter()
            .map(FakeStep::Send)
            .collect())
    };
    let server = run(FakeEngine::with(echo), settings());
    let clients: Vec<_> = (0..16)
        .map(|client| {
            let address = server.address;
            std::thread::spawn(move || {
                for i in 0..20 {
                    let word = format!("nonce-{client}-{i}");
                    let reply = post(address, "/completion", &json!({"prompt": word, "stream": i % 2 == 0}));
                    let text: String = match i % 2 {
                        0 => reply.events().iter().map(|(_, e)| e["content"].as_str().unwrap().to_string()).collect(),
                        _ => reply.json()["content"].as_str().unwrap().into(),
                    };
                    assert_eq!(text, word);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().unwrap());
}
