//! Adapters and small models that requests of one server have or have not.

use super::{all, ask, exact, greedy, load, prompts, run, All};
use crate::adapters::adapter_of;
use crate::util::demo_path;
use pumex::adapter::{self, Layers};
use pumex::gguf::Gguf;
use pumex::server::{ModelSettings, ServedModel, TestFault};
use pumex_serve::engine::{Generate, Model, RefusalKind};
use std::sync::Arc;

/// The demo model with an adapter of its matrices.
fn load_adapted(slots: usize, scale: f32) -> ServedModel {
    load(settings(slots, scale))
}

fn settings(slots: usize, scale: f32) -> ModelSettings {
    let open = || {
        let mut gguf = Gguf::open(&demo_path())?;
        let lora = adapter_of(&gguf, "", |_| true);
        adapter::attach_by_sequence(&mut gguf, &[lora], &[], Layers::default())?;
        Ok(gguf)
    };
    ModelSettings { open: Arc::new(open), adapters: vec![("lora.gguf".into(), scale)], ..exact(slots) }
}

#[test]
fn a_panic_at_other_scales_is_not_their_fault() {
    let model = load(ModelSettings { fault: Some(TestFault::Panic(3)), ..settings(1, 0.0) });
    let asked = || Generate { adapters: Some(vec![(0, 1.0)]), ..greedy("And it came to pass", 6) };
    let (first, second) = (ask(&model, asked()), ask(&model, asked()));
    assert!(all(first).answers.iter().all(|got| got.finish.is_none()), "what was at work is over");
    assert_eq!(all(second).finish().completion_tokens, 6);
}

#[test]
fn each_request_has_the_adapter_at_its_own_scale() {
    let scales = [0.0, 0.5, 1.0];
    let prompt = |i: usize| prompts(6)[i].clone();
    let expected: Vec<Vec<String>> = scales
        .iter()
        .map(|scale| {
            let model = load_adapted(1, *scale);
            (0..6).map(|i| run(&model, greedy(&prompt(i), 10)).text().to_string()).collect()
        })
        .collect();
    assert!(expected[0] != expected[1] && expected[1] != expected[2], "the adapter changes what is said: {expected:?}");
    let model = load_adapted(3, 0.5);
    let with = |i: usize, scale: f32| Generate { adapters: Some(vec![(0, scale)]), ..greedy(&prompt(i), 10) };
    let waiting: Vec<_> = (0..6).map(|i| (i, ask(&model, with(i, scales[i % 3])))).collect();
    for (i, receiver) in waiting {
        let found: All = all(receiver);
        assert_eq!(found.text(), expected[i % 3][i], "request {i}");
    }
    assert_eq!(run(&model, greedy(&prompt(0), 10)).text(), expected[1][0], "the server's, where a request names none");
    // What was computed with other scales is of no use.
    let again = run(&model, with(0, 0.75));
    assert_eq!(again.cached, 0);
    let again = run(&model, with(0, 0.5));
    assert!(again.text() == expected[1][0] && again.cached > 0, "what was computed with the same ones is");
    let wrong =
        model.generate(Generate { adapters: Some(vec![(1, 1.0)]), ..greedy("a", 1) }, ask_nobody()).unwrap_err();
    assert_eq!((wrong.kind, wrong.field.as_deref()), (RefusalKind::Invalid, Some("lora")));
}

#[test]
fn a_scale_that_spoils_the_numbers_fails_its_request_alone() {
    let model = load_adapted(3, 1.0);
    let with = |scale: f32| Generate { adapters: Some(vec![(0, scale)]), ..greedy("And it came", 5) };
    let expected = run(&model, with(1.0)).text().to_string();
    for _ in 0..4 {
        let (beside, spoilt) = (ask(&model, with(1.0)), ask(&model, with(1e4)));
        // What is of no use may be said or refused; nobody else is harmed.
        let _ = all(spoilt);
        assert_eq!(all(beside).text(), expected);
    }
    assert_eq!((run(&model, with(1.0)).text(), model.metrics().requests_waiting), (&*expected, 0));
}

#[test]
fn requests_at_other_scales_are_served_side_by_side() {
    let model = load_adapted(2, 0.0);
    let with = |scale: f32, n: usize| Generate { adapters: Some(vec![(0, scale)]), ..greedy("And it came to pass", n) };
    let long = ask(&model, with(0.0, 400));
    let short = run(&model, with(1.0, 4));
    assert_eq!(
        (short.finish().completion_tokens, model.metrics().requests_running),
        (4, 1),
        "the first is at work yet"
    );
    drop(long);
}

fn ask_nobody() -> pumex_serve::engine::EventSender {
    tokio::sync::mpsc::channel(1).0
}
