//! Load on a server, and what the report says of it.

use crate::client::{run, settings};
use crate::fake::{refusal, FakeEngine};
use pumex_serve::bench::{self, Arrivals, Goals, Load, Prompts};
use pumex_serve::engine::RefusalKind;
use pumex_serve::http::HttpSettings;
use std::time::Duration;

fn load(address: std::net::SocketAddr) -> Load {
    Load {
        url: format!("http://{address}"),
        chat: true,
        model: None,
        key: None,
        requests: 12,
        arrivals: Arrivals::Users(3),
        prompts: Prompts::Words { length: 8, spread: 0.0, shared: 0 },
        output_tokens: 5,
        ignore_eos: true,
        seed: 1,
        goals: Goals::default(),
        timeout: Duration::from_secs(20),
    }
}

#[test]
fn all_requests_are_sent_and_measured() {
    let fake = FakeEngine::hello();
    let server = run(fake.clone(), HttpSettings { keys: vec!["k".into()], ..settings() });
    for (chat, arrivals) in [(true, Arrivals::Users(3)), (false, Arrivals::Rate(1000.0))] {
        let mut told = 0;
        let load = Load { chat, arrivals, key: Some("k".into()), ..load(server.address) };
        let report = bench::run(&load, |done| told = done).unwrap();
        assert_eq!((told, report.counts(), report.tokens()), (12, (12, 12), (12 * 7, 12 * 5)));
        let json = report.json();
        assert_eq!((&json["failed"], &json["output_tokens"]), (&0.into(), &60.into()));
        assert!(json["time_to_first_token_ms"]["p50"].as_f64().unwrap() > 0.0);
        assert!(report.table().contains("| time to first token   |"), "{}", report.table());
        let picture = report.picture();
        assert!(picture.starts_with("<svg") && picture.matches("<polyline").count() == 3);
    }
    assert_eq!(fake.last().max_tokens, Some(5));
    assert_eq!(fake.last().sampling.ignore_eos, Some(true));
}

#[test]
fn failures_are_told_and_goals_are_counted() {
    let busy = FakeEngine::with(|_| Err(refusal(RefusalKind::Busy, "the queue is full")));
    let server = run(busy, settings());
    let error = bench::run(&load(server.address), |_| {}).unwrap_err();
    assert!(error.to_string().contains("the queue is full"), "{error}");
    let server = run(FakeEngine::hello(), settings());
    let goals = Goals { first_token: Some(0.0), ..Goals::default() };
    assert_eq!(bench::run(&Load { goals, ..load(server.address) }, |_| {}).unwrap().counts(), (12, 0));
    let wrong = Load { url: "https://localhost".into(), ..load(server.address) };
    assert!(bench::run(&wrong, |_| {}).is_err());
}
