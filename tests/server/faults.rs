//! Readers that are slow or go, full queues, steps that fail, and the end.

use super::{all, ask, exact, greedy, load, prompts, run, settings, wait, All};
use crate::nan_logits::{model_with_nan, FaultPosition, SPOILT};
use pumex::server::{ModelSettings, TestFault};
use pumex_serve::engine::{Event, FinishReason, Generate, Holder, Model, Prompt, PromptPart, RefusalKind};
use std::time::Duration;
use tokio::sync::mpsc;

#[test]
fn a_step_that_fails_ends_what_runs_and_the_next_request_is_served() {
    let model = load(ModelSettings { fault: Some(TestFault::Lost(5)), ..settings(2) });
    let waiting: Vec<_> = prompts(2).iter().map(|prompt| ask(&model, greedy(prompt, 50))).collect();
    let found: Vec<All> = waiting.into_iter().map(all).collect();
    assert!(found.iter().any(|f| f.failed.is_some()));
    for found in &found {
        let failed = found.failed.as_ref().is_some_and(|f| f.kind == RefusalKind::Failed);
        assert!(failed || found.finish().reason == FinishReason::Length, "{found:?}");
    }
    let after = run(&model, greedy("And it came to pass", 10));
    assert_eq!(after.text(), run(&load(settings(1)), greedy("And it came to pass", 10)).text());
}

#[test]
fn a_panic_of_the_model_s_thread_ends_what_runs_and_the_next_request_is_served() {
    let model = load(ModelSettings { fault: Some(TestFault::Panic(5)), ..settings(2) });
    let waiting: Vec<_> = prompts(4).iter().map(|prompt| ask(&model, greedy(prompt, 20))).collect();
    let found: Vec<All> = waiting.into_iter().map(all).collect();
    let ended = |found: &All| found.answers.iter().any(|got| got.finish.is_some());
    assert!(!ended(&found[0]) && !ended(&found[1]), "what was at work is over: {found:?}");
    assert!(ended(&found[2]) && ended(&found[3]), "what waited is answered: {found:?}");
    assert_eq!(run(&model, greedy("And it came to pass", 10)).finish().completion_tokens, 10);
    wait("idle", || model.slots(&Holder::default()).iter().all(|slot| !slot.busy));
}

/// Greedy ids that go on from ids.
fn from_ids(ids: &[u32], tokens: usize) -> Generate {
    Generate { prompt: Prompt::Parts(ids.iter().map(|id| PromptPart::Token(*id)).collect()), ..greedy("", tokens) }
}

#[test]
fn logits_that_are_nan_end_their_own_request_and_nothing_of_it_stays() {
    let opened = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = opened.clone();
    let open = std::sync::Arc::new(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(model_with_nan(FaultPosition::FirstLayer))
    });
    let model = load(ModelSettings { open, ..exact(3) });
    let good = [5, 589, 346];
    let expected = run(&model, from_ids(&good, 20)).text().to_string();
    for round in 0..5 {
        let honest = ask(&model, from_ids(&good, 20));
        let bad: Vec<_> = (0..2).map(|_| ask(&model, from_ids(&[5, 589, SPOILT, 9], 20))).collect();
        for bad in bad {
            let refusal = all(bad).failed.unwrap();
            assert_eq!(refusal.kind, RefusalKind::Failed);
            assert!(refusal.message.contains("NaN"), "{}", refusal.message);
        }
        assert_eq!(all(honest).text(), expected, "round {round}");
        // The beginning that it shares with what failed.
        assert_eq!(run(&model, from_ids(&good, 20)).text(), expected, "round {round}");
    }
    assert_eq!(opened.load(std::sync::atomic::Ordering::SeqCst), 1, "it was not loaded anew");
}

#[test]
fn where_memory_runs_out_for_a_moment_what_is_kept_goes_and_no_request_notices() {
    let quiet = load(exact(2));
    let expected: Vec<String> = prompts(2).iter().map(|p| run(&quiet, greedy(p, 20)).text().to_string()).collect();
    let model = load(ModelSettings { fault: Some(TestFault::Memory(30, 1)), ..exact(2) });
    run(&model, greedy("And it came to pass", 5));
    assert!(model.metrics().blocks_used > 0, "the first answer is kept");
    for (prompt, expected) in prompts(2).iter().zip(&expected) {
        assert_eq!(run(&model, greedy(prompt, 20)).text(), expected);
    }
    assert_eq!(model.metrics().requests_failed, 0);
}

#[test]
fn where_memory_stays_short_its_requests_end_with_what_would_fit_and_the_model_stays() {
    let opened = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (count, base) = (opened.clone(), settings(2));
    let open = base.open.clone();
    let open = std::sync::Arc::new(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        open()
    });
    let model = load(ModelSettings { open, fault: Some(TestFault::Memory(8, 2)), ..base });
    let found = run(&model, greedy("And it came to pass", 30)).failed.unwrap();
    assert_eq!(found.kind, RefusalKind::Failed);
    assert!(found.message.contains("out of memory") && found.message.contains("steps of up to"), "{}", found.message);
    assert_eq!(run(&model, greedy("And it came to pass", 30)).finish().completion_tokens, 30);
    assert_eq!(opened.load(std::sync::atomic::Ordering::SeqCst), 1, "it was not loaded anew");
}

#[test]
fn a_reader_that_takes_nothing_holds_up_nobody_else() {
    let model = load(settings(2));
    let (events, mut slow) = mpsc::channel(1);
    model.generate(greedy("And it came to pass", 30), events).unwrap();
    let quick = run(&model, greedy("The king said", 60));
    assert_eq!(quick.finish().completion_tokens, 60);
    let mut late = All::default();
    while let Some(event) = slow.blocking_recv() {
        late.take(event);
    }
    assert_eq!(late.text(), run(&model, greedy("And it came to pass", 30)).text(), "it gets all of its events");
    let impatient = load(ModelSettings { stall: Duration::from_millis(30), ..settings(1) });
    let (events, slow) = mpsc::channel(1);
    impatient.generate(greedy("And it came to pass", 30), events).unwrap();
    wait("cut off", || impatient.metrics().requests_cancelled == 1);
    drop(slow);
}

#[test]
fn a_queue_has_an_end() {
    let model = load(ModelSettings { queue: 3, ..settings(1) });
    let waiting: Vec<_> = (0..3)
        .filter_map(|_| {
            let (events, receiver) = mpsc::channel(4096);
            model.generate(greedy("And it came to pass", 200), events).ok().map(|_| receiver)
        })
        .collect();
    let mut more = Vec::new();
    let refused = (0..8).find_map(|_| {
        let (events, receiver) = mpsc::channel(4096);
        more.push(receiver);
        model.generate(greedy("And it came to pass", 200), events).err()
    });
    assert_eq!(refused.map(|r| r.kind), Some(RefusalKind::Busy));
    assert!(model.metrics().requests_refused > 0);
    drop((waiting, more));
    // Who was let go of leaves the queue with the next step, which may be yet to come.
    let mut taken = None;
    wait("room in the queue", || {
        let (events, receiver) = mpsc::channel(64);
        taken = model.generate(greedy("And", 2), events).ok().map(|_| receiver);
        taken.is_some()
    });
    assert_eq!(all(taken.unwrap()).finish().completion_tokens, 2);
}

#[test]
fn requests_come_and_go_at_random_and_none_gets_what_is_anothers() {
    let model = load(exact(4));
    let prompts = prompts(12);
    let expected: Vec<String> = prompts.iter().map(|p| run(&model, greedy(p, 20)).text().to_string()).collect();
    let mut state = 3u32;
    let mut random = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let mut waiting: Vec<(usize, usize, mpsc::Receiver<Event>)> = Vec::new();
    for _ in 0..150 {
        let (which, tokens) = (random(12) as usize, 1 + random(20) as usize);
        let user = ["", "a", "b"][random(3) as usize].to_string();
        waiting.push((which, tokens, ask(&model, Generate { user: Some(user), ..greedy(&prompts[which], tokens) })));
        if random(3) == 0 {
            waiting.swap_remove(random(waiting.len() as u32) as usize);
        }
        while waiting.len() > 9 {
            let (which, tokens, receiver) = waiting.swap_remove(random(waiting.len() as u32) as usize);
            let found = all(receiver);
            assert!(expected[which].starts_with(found.text()), "{}: {:?}", prompts[which], found.text());
            assert!(found.finish().completion_tokens == tokens || found.finish().reason == FinishReason::End);
        }
    }
    drop(waiting);
    wait("idle", || {
        model.slots(&Holder::default()).iter().all(|slot| !slot.busy) && model.metrics().requests_waiting == 0
    });
    let metrics = model.metrics();
    assert_eq!(metrics.requests_failed, 0);
    assert_eq!(metrics.requests_done + metrics.requests_cancelled, 150 + 12);
}
