//! Models that answer sources: whole sources in steps of their own, answers beside each other.

use super::{all, ask, exact, greedy, load, message, run, settings, wait, All};
use crate::encoder_decoder::TemporaryModel;
use crate::util::reference;
use pumex::conversation::{feed_source, rows};
use pumex::gguf::Gguf;
use pumex::server::ModelSettings;
use pumex::step::{RowOutput, Runner};
use pumex_serve::engine::{Chat, FinishReason, Generate, Model, RefusalKind, Sampling};
use std::sync::Arc;

fn serve_model(made: &TemporaryModel, base: ModelSettings) -> ModelSettings {
    let path = made.0.clone();
    ModelSettings { open: Arc::new(move || Gguf::open(&path)), ..base }
}

fn source(i: usize) -> String {
    (0..3 + i).map(|j| format!("w{}", 3 + (i * 7 + j * 5) % 60)).collect::<Vec<_>>().join(" ")
}

/// The likeliest answer to a source, an id at a time, without its end.
fn truth(gguf: &Gguf, prompt: &[u32], most: usize) -> Vec<u32> {
    let mut runner = reference(gguf);
    feed_source(&mut runner, prompt).unwrap();
    let mut ids = vec![0];
    while ids.len() <= most {
        let row = rows(&ids[ids.len() - 1..], prompt.len() + ids.len() - 1, |_| RowOutput::Id);
        let ticket = runner.start(&row).unwrap();
        match runner.finish(ticket).unwrap().ids[0] {
            1 => break,
            id => ids.push(id),
        }
    }
    ids[1..].to_vec()
}

#[test]
fn answers_to_sources_beside_each_other_are_those_that_each_gets_alone() {
    let made = TemporaryModel::new("served");
    let gguf = Gguf::open(&made.0).unwrap();
    let model = load(serve_model(&made, exact(3)));
    let waiting: Vec<_> = (0..8).map(|i| ask(&model, greedy(&source(i), 12 + i))).collect();
    for (i, receiver) in waiting.into_iter().enumerate() {
        let found = all(receiver);
        let mut prompt = model.tokenize(&source(i), false, false).unwrap();
        prompt.push(1);
        assert_eq!(found.answers[0].ids, truth(&gguf, &prompt, 12 + i), "{}", source(i));
        assert_eq!(found.finish().prompt_tokens, prompt.len());
        assert!(matches!(found.finish().reason, FinishReason::End | FinishReason::Length), "{found:?}");
    }
    assert_eq!(model.metrics().blocks_used, 0, "sources are not kept");
}

#[test]
fn several_answers_share_a_source() {
    let made = TemporaryModel::new("forked");
    let model = load(serve_model(&made, exact(3)));
    let alone = run(&model, greedy(&source(4), 10));
    let found = run(&model, Generate { n: 3, ..greedy(&source(4), 10) });
    assert!(found.answers.len() == 3 && found.answers.iter().all(|answer| answer.ids == alone.answers[0].ids));
}

#[test]
fn those_for_whom_there_is_no_room_are_encoded_anew_and_give_the_same_answers() {
    let made = TemporaryModel::new("preempted");
    let request = |i: usize, n: usize| {
        let mut long = Generate { n, ..greedy(&source(i), 80) };
        // The same numbers for all: answers differ by their sources, of which this model makes little.
        let options = Sampling { ignore_eos: Some(true), seed: Some(7), ..Sampling::default() };
        long.sampling = Sampling { temperature: Some(20.0), min_p: Some(0.0), top_p: Some(1.0), ..options };
        long
    };
    let wide = load(serve_model(&made, settings(6)));
    // Each answer needs three blocks in the end, and there are ten.
    let mut narrow = ModelSettings { unified: true, ..serve_model(&made, settings(6)) };
    narrow.engine.n_ctx = Some(128);
    let model = load(narrow);
    for n in [1, 2] {
        let ids = |found: &All| found.answers.iter().map(|answer| answer.ids.clone()).collect::<Vec<_>>();
        let expected: Vec<_> = (0..6).map(|i| ids(&run(&wide, request(i, n)))).collect();
        assert!(expected.iter().flatten().all(|ids| ids.len() == 80), "{expected:?}");
        assert!(expected.windows(2).all(|pair| pair[0] != pair[1]), "{expected:?}");
        let before = model.metrics().preemptions;
        // Whether one has to make room depends on how soon after each other they come.
        wait("one makes room", || {
            let waiting: Vec<_> = (0..6).map(|i| ask(&model, request(i, n))).collect();
            for (i, receiver) in waiting.into_iter().enumerate() {
                let found = all(receiver);
                assert_eq!((&found.failed, ids(&found)), (&None, expected[i].clone()), "{n} of {}", source(i));
            }
            model.metrics().preemptions > before
        });
        wait("all are over", || model.metrics().blocks_used == 0);
    }
}

#[test]
fn conversations_and_long_sources_are_refused_with_a_reason() {
    let made = TemporaryModel::new("refused");
    let mut short = serve_model(&made, settings(1));
    short.engine.max_rows = 32;
    let model = load(short);
    let (events, _receiver) = tokio::sync::mpsc::channel(4);
    let refused = |request: Generate| model.generate(request, events.clone()).unwrap_err();
    let chat = refused(message("Hello", 4));
    assert_eq!((chat.kind, chat.field.as_deref()), (RefusalKind::Invalid, Some("messages")));
    assert!(chat.message.contains("/v1/completions"), "{}", chat.message);
    assert_eq!(model.render(&Chat::default()).unwrap_err().kind, RefusalKind::Invalid);
    let long = refused(greedy(&source(40), 4));
    assert_eq!((long.kind, long.tokens), (RefusalKind::ContextExceeded, Some((44, 32))));
    assert_eq!(run(&model, greedy(&source(1), 3)).finish().completion_tokens, 3);
}
