//! A server at work for as long as `PUMEX_SOAK` says, in seconds (`make test-soak`): its memory, blocks and threads stay what they were.

use super::load::{client, flush, nonce, runtime, MANNERS, RUDE};
use super::process::{ask, connect, metric, request, Process};
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

const CLIENTS: usize = 48;
/// Between the requests of a client.
const PAUSE: Duration = Duration::from_secs(1);
/// KiB that a server may have more at the end than after a quarter of the time.
const GROWTH: u64 = 2048;

/// A number of the kernel's about a process.
fn read_proc_number(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A conversation of a user of its own, whose answer is its nonce.
async fn talk(address: SocketAddr, i: usize) -> bool {
    let nonce = nonce(i);
    let asked = json!({
        "messages": [{"role": "user", "content": format!("Say {nonce}.")}],
        "grammar": format!("root ::= \"{nonce}\""),
        "user": nonce,
        "reasoning_control": true,
        "temperature": 0,
    });
    let reply = ask(address, "/v1/chat/completions", &asked).await;
    let body = reply.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
    body.is_some_and(|body| body["choices"][0]["message"]["content"] == nonce.as_str())
}

/// Has all clients wait at once, as they may at any time: each has its grammar compiled then, and the allocator keeps what that took.
async fn crowd(address: SocketAddr, slots: usize, next: &AtomicUsize) {
    let endless = json!({"prompt": "And it came to pass", "n_predict": 1_000_000, "ignore_eos": true, "stream": true});
    let mut busy = Vec::new();
    for _ in 0..slots {
        let mut connection = connect(address).await.unwrap();
        connection.write_all(&request("/completion", &endless)).await.unwrap();
        busy.push(connection);
    }
    let until = |name: &'static str, n: usize| async move {
        while metric(address, &format!("vllm:num_requests_{name}{{model_name=\"demo\"}}")).await < n as f64 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    until("running", slots).await;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let i = next.fetch_add(1, Ordering::Relaxed);
        clients
            .spawn(async move { assert!(client(address, i, RUDE + 1).await, "client {i} did not get {}", nonce(i)) });
    }
    until("waiting", CLIENTS).await;
    drop(busy);
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
}

/// Requests one after the other, a third of them rude, until the time is over.
async fn work(address: SocketAddr, until: Instant, next: &'static AtomicUsize) -> usize {
    let mut checked = 0;
    while Instant::now() < until {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let manner = if i.is_multiple_of(3) { i / 3 % RUDE } else { RUDE + i % (MANNERS - RUDE) };
        let good = match manner + 1 {
            MANNERS => talk(address, i).await,
            _ => client(address, i, manner).await,
        };
        assert!(good, "client {i} did not get {}", nonce(i));
        checked += usize::from(manner >= RUDE);
        sleep(PAUSE).await;
    }
    checked
}

#[test]
fn memory_blocks_and_threads_stay_what_they_were() {
    let Some(seconds) = std::env::var("PUMEX_SOAK").ok().and_then(|text| text.parse().ok()) else {
        eprintln!("skipped: PUMEX_SOAK names no seconds");
        return;
    };
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (slots, time) = (8, Duration::from_secs(seconds));
    let mut server = Process::start(0, &["-np", "8", "-c", "2048", "--kept", "8", "--context-shift"]);
    let (address, pid) = (server.address, server.child().id());
    runtime().block_on(async {
        for _ in 0..5 {
            crowd(address, slots, &NEXT).await;
        }
        let (blocks, begun) = (flush(address, slots).await, Instant::now());
        let mut clients = JoinSet::new();
        (0..CLIENTS).for_each(|_| drop(clients.spawn(work(address, begun + time, &NEXT))));
        let mut early = None;
        let mut look = |what: &str| {
            let (memory, threads) = (read_proc_number(pid, "RssAnon"), read_proc_number(pid, "Threads"));
            let (at, asked) = (begun.elapsed().as_secs(), NEXT.load(Ordering::Relaxed));
            eprintln!("{at} s{what}: {asked} requests, {memory} KiB, {threads} threads");
            if begun.elapsed() >= time / 4 {
                early.get_or_insert(memory);
            }
            (memory, early)
        };
        while begun.elapsed() < time {
            sleep((time / 20).min(Duration::from_secs(60))).await;
            look("");
        }
        let mut checked = 0;
        while let Some(done) = clients.join_next().await {
            checked += done.unwrap();
        }
        while metric(address, "vllm:num_requests_running{model_name=\"demo\"}").await > 0.0 {
            sleep(Duration::from_millis(5)).await;
        }
        let (memory, early) = look(", all are over");
        let after = flush(address, slots).await;
        eprintln!("{checked} answers checked; blocks {blocks} before, {after} after");
        assert_eq!(after, blocks, "blocks");
        for name in ["pumex:handler_panics_total", "pumex:requests_failed_total"] {
            assert_eq!(metric(address, name).await, 0.0, "{name}");
        }
        let early = early.unwrap_or(memory);
        assert!(memory <= early + GROWTH, "{early} KiB after a quarter of the time, {memory} at the end");
    });
}
