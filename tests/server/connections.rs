//! Connections that ask nothing, of a server as a process.

use super::process::{connect, get, Process};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

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
