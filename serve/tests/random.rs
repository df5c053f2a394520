//! Bodies at random: an answer or a refusal, never a fault of the server's.

use crate::bodies::Bytes;
use crate::client::settings;
use crate::fake::FakeEngine;
use pumex_serve::http::Endpoints;
use std::collections::BTreeMap;

#[test]
fn no_body_makes_the_server_fail() {
    let endpoints = Endpoints::new(FakeEngine::hello(), settings()).unwrap();
    let mut seen: BTreeMap<u16, usize> = BTreeMap::new();
    let mut state = 1u64;
    let rounds = if std::env::var_os("PUMEX_TEST_ALL").is_some_and(|all| all == "1") { 400_000 } else { 4000 };
    for _ in 0..rounds {
        let mut bytes = [0u8; 64];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        let (path, body) = Bytes::new(&bytes).request();
        let (status, answer) = endpoints.ask("POST", path, body.to_string().into_bytes()).unwrap();
        assert!(status < 500 || status == 501, "{path} {body}: {status} {}", String::from_utf8_lossy(&answer));
        *seen.entry(status).or_default() += 1;
    }
    // Both are reached: bodies are nearly right, and not all right.
    assert!(seen[&200] > 500 && seen[&400] > 500, "{seen:?}");
}
