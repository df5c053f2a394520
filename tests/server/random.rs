//! Bodies at random against a real model: an answer or a refusal, never a fault of the server's. `PUMEX_FUZZ` has it go on for as many
//! seconds, with bodies that differ each time.

#[path = "../../serve/tests/bodies.rs"]
#[allow(dead_code)]
mod bodies;

use super::settings;
use bodies::Bytes;
use pumex::server::{ListedModel, ModelSettings, Models, Serving};
use pumex_serve::http::{self, Endpoints};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Asks until it has asked often enough, or long enough.
fn ask(settings: ModelSettings, seen: &mut BTreeMap<u16, usize>) {
    let models = Models::new(vec![ListedModel::new(settings)], Serving::default());
    let endpoints = Endpoints::new(models, http::HttpSettings::default()).unwrap();
    let seconds = std::env::var("PUMEX_FUZZ").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut state = seconds.map_or(1, |_| now.as_nanos() as u64);
    let begun = Instant::now();
    let mut asked = 0;
    while seconds.map_or(asked < 150, |time| begun.elapsed() < time) {
        let mut bytes = [0u8; 64];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        let (path, mut body) = Bytes::new(&bytes).request();
        if let Some(body) = body.as_object_mut() {
            // Answers that nobody bounds are as long as the context.
            body.entry("max_tokens").or_insert(8.into());
            body.entry("n_predict").or_insert(8.into());
        }
        let (status, answer) = endpoints.ask("POST", path, body.to_string().into_bytes()).unwrap();
        assert!(status < 500 || status == 501, "{path} {body}: {status} {}", String::from_utf8_lossy(&answer));
        *seen.entry(status).or_default() += 1;
        asked += 1;
    }
    eprintln!("{asked} bodies");
}

#[test]
fn no_body_makes_a_server_with_a_model_fail() {
    let folder = std::env::temp_dir().join(format!("pumex-random-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let chat_template = Some("{{ messages[0]['content'] }}".to_string());
    let writes = ModelSettings { slot_folder: Some(folder.clone()), chat_template, ..settings(2) };
    let mut seen = BTreeMap::new();
    ask(writes, &mut seen);
    ask(ModelSettings { embeds: true, ..settings(2) }, &mut seen);
    std::fs::remove_dir_all(folder).unwrap();
    assert!(seen[&200] > 20 && seen[&400] > 20, "{seen:?}");
}
