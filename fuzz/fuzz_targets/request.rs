//! Any bytes as the body of a request, and bodies of each endpoint with fields of other values and types: an answer or a refusal.
#![no_main]
#![allow(dead_code)]

#[path = "../../serve/tests/bodies.rs"]
mod bodies;
#[path = "../../serve/tests/fake.rs"]
mod fake;

use libfuzzer_sys::fuzz_target;
use pumex_serve::http::{Endpoints, Settings};
use std::sync::LazyLock;

static ENDPOINTS: LazyLock<Endpoints> =
    LazyLock::new(|| Endpoints::new(fake::Fake::hello(), Settings::default()).expect("threads"));

fuzz_target!(|bytes: &[u8]| {
    let (path, body) = bodies::Bytes::new(bytes).request();
    for body in [body.to_string().into_bytes(), bytes.to_vec()] {
        if let Some((status, _)) = ENDPOINTS.ask("POST", path, body) {
            assert!(status < 500 || status == 501, "{path}: {status}");
        }
    }
});
