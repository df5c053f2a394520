//! Adapters and small models that requests of one server have or have not.

use super::{all, ask, exact, greedy, load, prompts, run, All};
use crate::adapters::adapter_of;
use crate::seeded::Recipe;
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
    let open = |scales: &[f32]| {
        let mut gguf = Gguf::open(&demo_path())?;
        let lora = adapter_of(&gguf, "", |_| true);
        if scales[0] != 0.0 {
            adapter::attach(&mut gguf, &[(lora, scales[0])], &[], Layers::default())?;
        }
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
    let again = run(&model, with(0, 1.0));
    assert_eq!((again.text(), again.cached), (&*expected[2][0], 0));
    let wrong =
        model.generate(Generate { adapters: Some(vec![(1, 1.0)]), ..greedy("a", 1) }, ask_nobody()).unwrap_err();
    assert_eq!((wrong.kind, wrong.field.as_deref()), (RefusalKind::Invalid, Some("lora")));
}

#[test]
fn scales_with_which_the_model_cannot_be_loaded_fail_their_requests_alone() {
    // The file can be opened at 2, but not loaded.
    let open = |scales: &[f32]| match scales[0] {
        3.0 => Err(pumex::Error::Request("no such adapter".into())),
        2.0 => {
            let mut recipe = Recipe::recipe_of("t5");
            recipe.tensors.pop_last();
            Ok(recipe.gguf("broken"))
        }
        _ => Gguf::open(&demo_path()),
    };
    let model = load(ModelSettings { open: Arc::new(open), adapters: vec![("lora.gguf".into(), 1.0)], ..exact(2) });
    let with = |scale: f32| Generate { adapters: Some(vec![(0, scale)]), ..greedy("And it came", 5) };
    let expected = run(&model, with(1.0)).text().to_string();
    for scale in [3.0, 2.0, 3.0, 2.0, 3.0, 2.0, 3.0, 2.0] {
        let beside = ask(&model, with(1.0));
        let failed = run(&model, with(scale)).failed.unwrap();
        assert_eq!((failed.kind, failed.field.as_deref()), (RefusalKind::Failed, Some("lora")));
        assert_eq!(all(beside).text(), expected);
    }
    assert_eq!((run(&model, with(1.0)).text(), model.metrics().requests_waiting), (&*expected, 0));
}

fn ask_nobody() -> pumex_serve::engine::EventSender {
    tokio::sync::mpsc::channel(1).0
}
