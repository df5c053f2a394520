//! Connections that ask nothing, of a server as a process.

use super::process::{connect, get, rest, Process};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn idle_connections_make_room_and_end_in_their_time() {
    let flags = ["--max-connections", "6", "--max-connections-per-address", "3", "--idle-timeout", "2"];
    let server = Process::start(0, &flags);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(connect(server.address).await.unwrap());
        }
        let reply = get(server.address, "/health").await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        let begun = Instant::now();
        for (i, connection) in idle.iter_mut().enumerate() {
            let mut byte = [0];
            let read = tokio::time::timeout(Duration::from_secs(20), connection.read(&mut byte));
            // Closed or cut off.
            assert!(!matches!(read.await.expect("it ends"), Ok(1)), "connection {i}");
            if i < 5 {
                assert!(begun.elapsed() < Duration::from_millis(1500), "connection {i} made room for others");
            }
        }
    });
}

#[test]
fn wrong_keys_are_counted_by_who_a_trusted_proxy_says_brought_them() {
    let server = Process::start(0, &["--api-key", "right", "--trusted-proxies", "127.0.0.0/8"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let attempt = |who: &str, key: &str| {
        runtime.block_on(async {
            let head = format!(
                "Host: localhost\r\nConnection: close\r\nX-Forwarded-For: {who}\r\nAuthorization: Bearer {key}"
            );
            let mut stream = connect(server.address).await.unwrap();
            stream.write_all(format!("GET /v1/models HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
            rest(&mut stream).await.split(' ').nth(1).unwrap().to_string()
        })
    };
    (0..10).for_each(|_| assert_eq!(attempt("9.9.9.9", "wrong"), "401"));
    assert_eq!(attempt("9.9.9.9", "wrong"), "429");
    assert_eq!((attempt("9.9.9.9", "right"), attempt("8.8.8.8", "wrong")), ("200".into(), "401".into()));
}
