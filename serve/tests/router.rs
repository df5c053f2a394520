//! Several models: which one a request means, and what happens to them.

use crate::client::{connect, get, post, read_reply, request_text, run, send, settings};
use crate::fake::{properties, FakeEngine};
use pumex_serve::engine::{ModelChange, ModelState, Router};
use pumex_serve::http::HttpSettings;
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

/// One that has a second model, which is not loaded.
fn several(autoload: bool) -> Arc<FakeEngine> {
    let fake = FakeEngine::hello();
    *fake.router.lock().unwrap() = Some(Router { most: 3, autoload });
    let mut offers = fake.offers.lock().unwrap();
    let mut second = offers[0].clone();
    (second.name, second.aliases, second.state, second.properties) =
        ("other".into(), vec![], ModelState::Unloaded, None);
    let mut third = second.clone();
    (third.name, third.state, third.failure) = ("broken".into(), ModelState::Failed, Some("no weights".into()));
    offers.extend([second, third]);
    drop(offers);
    fake
}

#[test]
fn the_list_is_made_anew_and_says_where_each_model_is() {
    let fake = several(true);
    let server = run(fake.clone(), settings());
    let list = get(server.address, "/models").json();
    get(server.address, "/v1/models?reload=1");
    get(server.address, "/api/tags");
    assert_eq!(*fake.rescans.lock().unwrap(), [false, true, false]);
    let states: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|model| &model["status"]).collect();
    let failed = json!({"value": "unloaded", "failed": true, "exit_code": 1, "error": "no weights"});
    assert_eq!(states, [&json!({"value": "loaded"}), &json!({"value": "unloaded"}), &failed]);
    assert_eq!(list["data"][0]["path"], "models/fake-1b.gguf");
}

#[test]
fn properties_without_a_model_are_the_routers_and_a_model_that_was_never_loaded_has_few() {
    let server = run(several(true), settings());
    let props = |query: &str| get(server.address, &format!("/props{query}")).json();
    let router = props("");
    assert_eq!(
        (&router["role"], &router["max_instances"], &router["models_autoload"]),
        (&json!("router"), &json!(3), &json!(true))
    );
    assert_eq!(props("?model=small")["total_slots"], 2);
    let other = props("?model=other");
    assert_eq!((&other["model_alias"], &other["is_sleeping"]), (&json!("other"), &json!(true)));
    assert_eq!(get(server.address, "/props?model=none").status, 404);
}

#[test]
fn what_a_model_counted_is_told_while_it_sleeps() {
    let server = run(several(true), HttpSettings { metrics: true, ..settings() });
    let counted = |query: &str| {
        let text = get(server.address, &format!("/metrics{query}")).text();
        text.lines().find_map(|line| line.strip_prefix("llamacpp:prompt_tokens_total ")?.parse().ok())
    };
    assert_eq!([counted("?model=other"), counted("?model=small")], [Some(77), Some(5)]);
}

#[test]
fn a_model_that_is_not_loaded_stays_so_where_requests_may_load_none() {
    let ask = |autoload: bool, query: &str| {
        let server = run(several(autoload), settings());
        let body = json!({"model": "other", "prompt": "x"});
        let reply = post(server.address, &format!("/v1/completions{query}"), &body);
        (reply.status, reply.json()["error"]["param"].clone())
    };
    // The fake has no other model that it could load: 404 shows that it was asked.
    assert_eq!(ask(true, "").0, 404);
    assert_eq!(ask(false, ""), (400, json!("model")));
    assert_eq!(ask(true, "?autoload=false"), (400, json!("model")));
    assert_eq!(ask(false, "?autoload=true").0, 404);
}

#[test]
fn models_are_loaded_and_unloaded_by_name_and_no_file_comes_or_goes() {
    let fake = several(true);
    let server = run(fake.clone(), settings());
    let load = |name: &str| {
        let reply = post(server.address, "/models/load", &json!({ "model": name }));
        (reply.status, reply.json()["success"] == true)
    };
    assert_eq!([load("other"), load("fake-1b"), load("none")], [(200, true), (400, false), (404, false)]);
    let unload = || post(server.address, "/models/unload", &json!({"model": "fake-1b"})).status;
    assert_eq!([unload(), unload()], [200, 400]);
    for (method, path) in [("POST", "/models"), ("DELETE", "/models?model=fake-1b")] {
        let reply = send(server.address, method, path, &[("Content-Type", "application/json")], b"{\"model\":\"a/b\"}");
        assert_eq!((reply.status, reply.json()["error"]["type"].as_str().unwrap()), (501, "not_supported_error"));
    }
}

#[test]
fn listeners_hear_what_happens_to_models_and_do_not_hold_up_the_end() {
    let fake = several(true);
    let mut server = run(fake.clone(), settings());
    let mut stream = connect(server.address);
    stream.write_all(&request_text("GET", "/models/sse", &[], b"")).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head[0].contains("200") && head.iter().any(|line| line.contains("text/event-stream")), "{head:?}");
    let tell = |change| fake.changes.send(change).unwrap();
    let state = |state, failure: Option<&str>| ModelChange::State {
        model: "m".into(),
        state,
        failure: failure.map(String::from),
        properties: (state == ModelState::Loaded).then(|| std::sync::Arc::new(properties())),
    };
    tell(state(ModelState::Loading, None));
    tell(state(ModelState::Loaded, None));
    tell(state(ModelState::Failed, Some("why")));
    tell(ModelChange::Removed { model: "m".into() });
    tell(ModelChange::Reloaded);
    let mut data = lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let status = |status: &str| json!({"model": "m", "event": "model_status", "data": {"status": status}});
    assert_eq!(data.next(), Some(status("loading")));
    let loaded = data.next().unwrap();
    assert_eq!((&loaded["data"]["status"], &loaded["data"]["info"]["meta"]["n_ctx"]), (&json!("loaded"), &json!(4096)));
    assert_eq!(
        data.next().unwrap()["data"],
        json!({"failed": true, "exit_code": 1, "error": "why", "status": "unloaded"})
    );
    assert_eq!(data.next(), Some(json!({"model": "m", "event": "model_remove"})));
    assert_eq!(data.next(), Some(json!({"model": "*", "event": "models_reload"})));
    server.stopper.stop();
    assert!(data.next().is_none(), "the stream ends");
    server.join();
    assert!(read_reply(&mut stream).is_none());
}
