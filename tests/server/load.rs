//! Many connections at once, among them rude ones; and a process that is killed amid its work.

use super::process::{ask, ask_as, connect, metric, metric_as, request, request_as, rest, Process};
use crate::util::exhaustive;
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Far longer than anything takes on a machine under load.
const LONG: Duration = Duration::from_secs(240);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What only this request has in its prompt, and must have in its answer.
pub fn nonce(i: usize) -> String {
    format!("N{:07}", i * 7919 % 10_000_000)
}

/// A request whose answer is its nonce, and that repeats its prompt.
fn body(i: usize, stream: bool) -> Value {
    let nonce = nonce(i);
    json!({
        "prompt": format!("And it came to pass in {nonce}"),
        "grammar": format!("root ::= \"{nonce}\""),
        "n_predict": 24,
        "temperature": 0,
        "stream": stream,
    })
}

/// Text of an answer, joined of its pieces if it was streamed; none where it is not whole.
fn answer_text(reply: &str, stream: bool) -> Option<String> {
    let (head, body) = reply.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.1 200") {
        return None;
    }
    if !stream {
        let value: Value = serde_json::from_str(body).ok()?;
        assert!(value["prompt"].as_str()?.contains(value["content"].as_str()?), "{value}");
        return Some(value["content"].as_str()?.to_string());
    }
    let events = body.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let (mut text, mut whole) = (String::new(), false);
    for event in events {
        text.push_str(event["content"].as_str()?);
        whole |= event["stop"] == true;
    }
    whole.then_some(text)
}

/// Manners of clients, the first ones rude.
pub const MANNERS: usize = 8;
/// Rude connections among them.
pub const RUDE: usize = 4;

/// A client that goes away, or takes its time; whether it got what it should.
pub async fn client(address: SocketAddr, i: usize, manner: usize) -> bool {
    client_as(address, "", i, manner).await
}

/// Likewise with a key.
pub async fn client_as(address: SocketAddr, key: &str, i: usize, manner: usize) -> bool {
    let stream = i.is_multiple_of(2);
    let text = request_as(key, "/completion", &body(i, stream));
    let Some(mut connection) = connect(address).await else { return false };
    match manner {
        // Half a body, and gone, or silent for a while.
        0 | 1 => {
            let _ = connection.write_all(&text[..text.len() - 9]).await;
            sleep(Duration::from_millis(if i % 16 < 8 { 0 } else { 300 })).await;
            true
        }
        // Gone once something came, or before.
        2 | 3 => {
            let _ = connection.write_all(&text).await;
            if i % 16 < 8 {
                let _ = connection.read(&mut [0; 16]).await;
            }
            true
        }
        // A few bytes at a time.
        4 => {
            let mut all = Vec::new();
            connection.write_all(&text).await.unwrap();
            let mut some = [0; 48];
            while let Ok(n @ 1..) = connection.read(&mut some).await {
                all.extend_from_slice(&some[..n]);
                sleep(Duration::from_millis(3)).await;
            }
            answer_text(&String::from_utf8_lossy(&all), stream) == Some(nonce(i))
        }
        _ => {
            connection.write_all(&text).await.unwrap();
            answer_text(&rest(&mut connection).await, stream) == Some(nonce(i))
        }
    }
}

/// Requests that share nothing, after which the cache holds as much as after as many others.
pub async fn flush(address: SocketAddr, slots: usize) -> f64 {
    flush_as(address, "", slots).await
}

/// Likewise with a key.
pub async fn flush_as(address: SocketAddr, key: &str, slots: usize) -> f64 {
    for i in 0..6 * slots {
        let body = json!({"prompt": [50 + i, 500 + i], "n_predict": 1, "temperature": 0});
        let text = ask_as(address, key, "/completion", &body).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    // An answer is sent before its end is counted.
    while metric_as(address, key, "vllm:num_requests_running{model_name=\"demo\"}").await > 0.0 {
        sleep(Duration::from_millis(5)).await;
    }
    metric_as(address, key, "pumex:blocks_used").await
}

#[test]
fn many_clients_at_once_get_what_is_theirs_and_nothing_is_left_of_the_rude_ones() {
    let (slots, rounds) = (8, if exhaustive() { 10 } else { 3 });
    let server = Process::start(0, &["-np", "8", "-c", "2048", "--kept", "0", "--queue", "2000"]);
    let address = server.address;
    runtime().block_on(async {
        let before = flush(address, slots).await;
        let mut clients = JoinSet::new();
        (0..100 * rounds).for_each(|i| drop(clients.spawn(async move { (i, client(address, i, i % MANNERS).await) })));
        let all = async {
            while let Some(done) = clients.join_next().await {
                let (i, good) = done.unwrap();
                assert!(good, "client {i} did not get {}", nonce(i));
            }
        };
        timeout(LONG, all).await.expect("all clients come to their end");
        let idle = async {
            while metric(address, "vllm:num_requests_running{model_name=\"demo\"}").await > 0.0
                || metric(address, "vllm:num_requests_waiting{model_name=\"demo\"}").await > 0.0
            {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, idle).await.expect("nothing goes on for clients that are gone");
        assert_eq!(flush(address, slots).await, before, "blocks");
        for name in ["pumex:handler_panics_total", "pumex:requests_failed_total"] {
            assert_eq!(metric(address, name).await, 0.0, "{name}");
        }
    });
}

#[test]
fn a_server_that_is_killed_cuts_its_streams_off_and_another_takes_its_place() {
    let mut server = Process::start(0, &["-np", "4", "-c", "1024"]);
    let address = server.address;
    let endless = json!({
        "messages": [{"role": "user", "content": "a"}], "max_tokens": 100_000, "ignore_eos": true, "stream": true,
    });
    runtime().block_on(async {
        let mut clients = JoinSet::new();
        let (begun, mut begins) = tokio::sync::mpsc::channel(12);
        for _ in 0..12 {
            let (text, begun) = (request("/v1/chat/completions", &endless), begun.clone());
            clients.spawn(async move {
                let mut stream = connect(address).await.unwrap();
                stream.write_all(&text).await.unwrap();
                begun.send(()).await.unwrap();
                rest(&mut stream).await
            });
        }
        for _ in 0..12 {
            begins.recv().await.unwrap();
        }
        while metric(address, "llamacpp:tokens_predicted_total").await < 20.0 {
            sleep(Duration::from_millis(2)).await;
        }
        server.kill();
        let ended = async {
            while let Some(text) = clients.join_next().await {
                assert!(!text.unwrap().contains("[DONE]"), "what is cut off does not look whole");
            }
        };
        timeout(LONG, ended).await.expect("no client waits for a server that is gone");
        assert!(connect(address).await.is_none());
        let next = Process::start(address.port(), &["-np", "4", "-c", "1024"]);
        assert_eq!(next.address, address);
        let reply = ask(address, "/completion", &body(1, false)).await;
        assert_eq!(answer_text(&reply, false), Some(nonce(1)), "{reply}");
    });
}
