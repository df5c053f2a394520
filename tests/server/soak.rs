//! A server under attack for as long as `PUMEX_SOAK` says, in seconds (`make test-soak`): honest users get what is theirs nearly as
//! fast as before, and memory, blocks and threads stay what they were.

use super::attackers::attack;
use super::load::{client_as, flush_as, nonce, runtime, MANNERS, RUDE};
use super::process::{ask_as, metric_as, Process};
use crate::adapters::adapter_file;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Keys of those who behave and of those who do not.
const HONEST: &str = "honest-key";
const OTHERS: &str = "others-key";
/// Honest users, rude clients, attackers at a time.
const USERS: usize = 4;
const RUDE_CLIENTS: usize = 8;
const ATTACKERS: usize = 4;
/// Between the requests of a client.
const PAUSE: Duration = Duration::from_secs(1);
/// KiB that a server may have more in the last quarter of the time than in the second.
const GROWTH: u64 = 4096;
/// How much longer honest users may wait than without company, nineteen times of twenty.
const SLOWER: f64 = 2.0;

/// Numbers of requests, no two alike.
static NEXT: AtomicUsize = AtomicUsize::new(0);

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
        "temperature": 0,
    });
    let reply = ask_as(address, HONEST, "/v1/chat/completions", &asked).await;
    let body = reply.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
    body.is_some_and(|body| body["choices"][0]["message"]["content"] == nonce.as_str())
}

/// An honest user's requests, one after the other, until the time is over; how long each took, in seconds.
async fn use_well(address: SocketAddr, until: Instant) -> Vec<f64> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let i = NEXT.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let good = match i.is_multiple_of(2) {
            true => talk(address, i).await,
            false => client_as(address, HONEST, i, MANNERS - 1).await,
        };
        assert!(good, "user {i} did not get {}", nonce(i));
        times.push(begun.elapsed().as_secs_f64());
        sleep(PAUSE).await;
    }
    times
}

/// Rude clients and slow readers, until told.
async fn be_rude(address: SocketAddr, over: &'static AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let i = NEXT.fetch_add(1, Ordering::Relaxed);
        // Those who wait for an answer may be refused it.
        let _ = client_as(address, OTHERS, i, i % (RUDE + 1)).await;
        sleep(PAUSE).await;
    }
}

/// Attacks, one after the other, until told; how often which status came.
async fn attack_on(address: SocketAddr, over: &'static AtomicBool) -> BTreeMap<Option<u16>, usize> {
    let mut statuses = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        let status = attack(address, OTHERS, NEXT.fetch_add(1, Ordering::Relaxed)).await;
        *statuses.entry(status).or_default() += 1;
        sleep(PAUSE).await;
    }
    statuses
}

/// All users' times, sorted.
async fn use_all(address: SocketAddr, time: Duration) -> Vec<f64> {
    let (mut users, until) = (JoinSet::new(), Instant::now() + time);
    (0..USERS).for_each(|_| drop(users.spawn(use_well(address, until))));
    let mut times = Vec::new();
    while let Some(done) = users.join_next().await {
        times.extend(done.unwrap());
    }
    times.sort_by(f64::total_cmp);
    times
}

fn p95(times: &[f64]) -> f64 {
    times[(times.len() * 19 / 20).min(times.len() - 1)]
}

/// Looks at the server's memory while it works: the least KiB that it had in the second quarter of the time, and in the last one. What
/// compiles takes more for a moment, which is no growth.
async fn watch(pid: u32, time: Duration, over: &'static AtomicBool) -> [u64; 2] {
    let (begun, mut least, mut told) = (Instant::now(), [u64::MAX; 2], 0);
    while !over.load(Ordering::Relaxed) {
        let (memory, threads) = (read_proc_number(pid, "RssAnon"), read_proc_number(pid, "Threads"));
        let (at, requests) = (begun.elapsed(), NEXT.load(Ordering::Relaxed));
        if at.as_secs() >= told {
            eprintln!("{} s: {requests} requests, {memory} KiB, {threads} threads", at.as_secs());
            told += (time.as_secs() / 20).clamp(1, 60);
        }
        match at.as_secs_f64() / time.as_secs_f64() {
            0.25..0.5 => least[0] = least[0].min(memory),
            0.75.. => least[1] = least[1].min(memory),
            _ => {}
        }
        sleep(Duration::from_millis(200)).await;
    }
    least
}

#[test]
fn honest_users_are_served_under_attack_and_nothing_grows() {
    let Some(seconds) = std::env::var("PUMEX_SOAK").ok().and_then(|text| text.parse().ok()) else {
        eprintln!("skipped: PUMEX_SOAK names no seconds");
        return;
    };
    static OVER: AtomicBool = AtomicBool::new(false);
    let (slots, time) = (8, Duration::from_secs(seconds));
    let lora = adapter_file("soak");
    let keys = format!("{HONEST},{OTHERS}");
    let flags = ["-np", "8", "-c", "2048", "--kept", "8", "--context-shift", "--api-key", &keys];
    let mut server = Process::start(0, &[&flags[..], &["--lora-scaled", &format!("{}:0", lora.display())]].concat());
    let (address, pid) = (server.address, server.child().id());
    runtime().block_on(async {
        let blocks = flush_as(address, HONEST, slots).await;
        let quiet = use_all(address, time / 5).await;
        let mut others = JoinSet::new();
        (0..RUDE_CLIENTS).for_each(|_| drop(others.spawn(be_rude(address, &OVER))));
        let mut attackers = JoinSet::new();
        (0..ATTACKERS).for_each(|_| drop(attackers.spawn(attack_on(address, &OVER))));
        let watched = tokio::spawn(watch(pid, time * 4 / 5, &OVER));
        let busy = use_all(address, time * 4 / 5).await;
        OVER.store(true, Ordering::Relaxed);
        let mut statuses: BTreeMap<Option<u16>, usize> = BTreeMap::new();
        while let Some(done) = attackers.join_next().await {
            done.unwrap().into_iter().for_each(|(status, n)| *statuses.entry(status).or_default() += n);
        }
        while others.join_next().await.is_some() {}
        while metric_as(address, HONEST, "vllm:num_requests_running{model_name=\"demo\"}").await > 0.0 {
            sleep(Duration::from_millis(5)).await;
        }
        let after = flush_as(address, HONEST, slots).await;
        let [early, memory] = watched.await.unwrap();
        let (alone, beside) = (p95(&quiet), p95(&busy));
        eprintln!("{} answers alone, p95 {alone:.3} s; {} under attack, p95 {beside:.3} s", quiet.len(), busy.len());
        eprintln!(
            "statuses of attacks {statuses:?}; blocks {blocks} before, {after} after; least memory {early} KiB, later {memory}"
        );
        assert_eq!(after, blocks, "blocks");
        assert_eq!(metric_as(address, HONEST, "pumex:handler_panics_total").await, 0.0);
        assert!(!statuses.contains_key(&None) && !statuses.contains_key(&Some(500)), "{statuses:?}");
        assert!(memory <= early + GROWTH, "{early} KiB in the second quarter, {memory} in the last one");
        assert!(beside <= SLOWER * alone, "p95 {alone} s alone, {beside} s under attack");
    });
    std::fs::remove_file(lora).unwrap();
}
