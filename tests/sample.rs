//! The sampler's steps, the generation loops and perplexity, over a small runner whose logits are known.
//!
//! The fake runner's next id is a fixed function of the last one, so every text and every loss can be said beforehand.

mod chain;
mod fake;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pumex::conversation::{generate, perplexity, PerplexityOptions, Request, Stats, StopReason};
use pumex::sample::rng::Rng;
use pumex::sample::steps::{self, Candidate};
use pumex::sample::{self, Sampler, SamplerOptions};
use pumex::{Error, Result};

use fake::FakeRunner;

fn list(logits: &[f32]) -> Vec<Candidate> {
    let mut list = Vec::new();
    steps::collect(logits, &mut list);
    list
}

fn ids(list: &[Candidate]) -> Vec<u32> {
    list.iter().map(|c| c.id).collect()
}

#[test]
fn top_k_keeps_the_best_in_order_and_breaks_ties_by_id() {
    let mut l = list(&[1.0, 3.0, 2.0, 3.0, 0.0]);
    steps::top_k(&mut l, 3);
    assert_eq!(ids(&l), [1, 3, 2]);
    let mut all = list(&[1.0, 3.0]);
    steps::top_k(&mut all, 0);
    assert_eq!(ids(&all), [0, 1]);
    steps::top_k(&mut all, 9);
    assert_eq!(ids(&all), [1, 0]);
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_p() {
    let logits: Vec<f32> = [0.1f32, 0.5, 0.4].iter().map(|p| p.ln()).collect();
    for (p, want) in [(0.49, vec![1]), (0.6, vec![1, 2]), (0.95, vec![1, 2, 0]), (0.0, vec![1])] {
        let mut l = list(&logits);
        steps::top_p(&mut l, p, 0);
        assert_eq!(ids(&l), want, "p = {p}");
    }
}

#[test]
fn min_p_compares_with_the_best_candidate() {
    let logits: Vec<f32> = [0.5f32, 0.3, 0.11, 0.09].iter().map(|p| p.ln()).collect();
    let mut l = list(&logits);
    steps::min_p(&mut l, 0.2, 0);
    assert_eq!(ids(&l), [0, 1, 2]);
    steps::min_p(&mut l, 2.0, 0);
    assert_eq!(ids(&l), [0], "the best one always stays");
}

#[test]
fn penalties_lower_logits_of_either_sign() {
    let mut l = list(&[2.0, -2.0, 1.0]);
    steps::penalize(&mut l, [0, 1, 1].into_iter(), 2.0, 0.25, 0.5);
    let logits: Vec<f32> = l.iter().map(|c| c.logit).collect();
    assert_eq!(logits, [1.0 - 0.25 - 0.5, -4.0 - 0.5 - 0.5, 1.0]);
}

#[test]
fn penalties_forget_ids_beyond_the_last_n() {
    let options = SamplerOptions { temperature: 0.0, repeat_penalty: 10.0, repeat_last_n: 2, ..Default::default() };
    let mut sampler = Sampler::new(options);
    sampler.accept(0);
    assert_eq!(sampler.sample(&[2.0, 1.0, 0.5]), Some(1));
    sampler.accept(1);
    sampler.accept(2);
    assert_eq!(sampler.sample(&[2.0, 1.0, 0.5]), Some(0));
}

#[test]
fn greedy_takes_the_lowest_id_of_equals_and_never_a_nan_or_banned_id() {
    let greedy = |banned| Sampler::new(SamplerOptions { temperature: 0.0, banned, ..Default::default() });
    assert_eq!(greedy(vec![]).sample(&[f32::NAN, 1.0, 4.0, 4.0]), None);
    assert_eq!(greedy(vec![2, 3, 99]).sample(&[0.0, 1.0, 4.0, 4.0]), Some(1));
}

#[test]
fn draws_follow_the_softmax_at_the_temperature() {
    let options = SamplerOptions { temperature: 2.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 7, ..Default::default() };
    let mut sampler = Sampler::new(options);
    let logits: Vec<f32> = [0.6f32, 0.3, 0.1].iter().map(|p| 2.0 * p.ln()).collect();
    let mut counts = [0u32; 3];
    let n = 60_000;
    for _ in 0..n {
        counts[sampler.sample(&logits).unwrap() as usize] += 1;
    }
    for (count, p) in counts.iter().zip([0.6, 0.3, 0.1]) {
        let sigma = (f64::from(n) * p * (1.0 - p)).sqrt();
        assert!((f64::from(*count) - f64::from(n) * p).abs() < 5.0 * sigma, "{counts:?}");
    }
}

#[test]
fn a_seed_repeats_its_draws_and_another_does_not() {
    let logits = vec![0.0; 1000];
    let draws = |seed| {
        let options = SamplerOptions { seed, top_k: 0, ..Default::default() };
        let mut sampler = Sampler::new(options);
        (0..8).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    // First value of SplitMix64 from seed 0, as published with the algorithm.
    assert_eq!(Rng::new(0).bits(), 0xE220_A839_7B1D_CDAF);
}

fn go(
    fake: &mut FakeRunner,
    prompt: &[u32],
    start: usize,
    n_predict: i64,
    options: SamplerOptions,
    end: Option<u32>,
) -> Result<(Vec<u32>, Stats)> {
    let stop = AtomicBool::new(false);
    let is_end = |id| Some(id) == end;
    let request = Request {
        prompt,
        media: &pumex::step::Media::new(),
        start,
        n_predict,
        is_end: &is_end,
        stop: &stop,
        counters: true,
    };
    let mut out = Vec::new();
    let stats = generate(fake, &request, &mut Sampler::new(options), &mut |id| out.push(id))?;
    assert!(fake.unfinished.is_empty(), "a step was left unfinished");
    assert_eq!(fake.cache.len(), stats.held, "the runner holds what the statistics say");
    Ok((out, stats))
}

fn greedy() -> SamplerOptions {
    SamplerOptions { temperature: 0.0, ..Default::default() }
}

/// Same text as `greedy`, but through the logits.
fn by_logits() -> SamplerOptions {
    SamplerOptions { temperature: 0.5, top_k: 1, ..Default::default() }
}

/// A runner of so many positions.
type Make = fn(usize) -> FakeRunner;

/// The ways a token comes about: greedy ahead, on the host, drawn ahead; greedy and drawn by a runner that does not run ahead.
fn loops() -> [(SamplerOptions, Make); 5] {
    let drawn: Make = |n| FakeRunner::new(n).drawing(true);
    let at_once: Make = |n| FakeRunner::new(n).at_once(Duration::ZERO, Duration::ZERO);
    let drawn_at_once: Make = |n| FakeRunner::new(n).drawing(true).at_once(Duration::ZERO, Duration::ZERO);
    let host: Make = FakeRunner::new;
    [(greedy(), host), (by_logits(), host), (by_logits(), drawn), (greedy(), at_once), (by_logits(), drawn_at_once)]
}

#[test]
fn greedy_runs_one_step_ahead_without_logits() {
    let mut fake = FakeRunner::new(64);
    let (out, stats) = go(&mut fake, &[1, 2, 3, 4, 5, 6], 0, 5, greedy(), None).unwrap();
    assert_eq!(out, [7, 8, 9, 0, 1]);
    assert_eq!((fake.most_unfinished, fake.logit_rows), (2, 0));
    assert_eq!((stats.stop, stats.generated_tokens, stats.per_token.len()), (StopReason::Limit, 5, 5));
    // Two prompt chunks and one step per token but the last: nothing ran in vain.
    assert_eq!(fake.steps, 2 + 4);
}

#[test]
fn a_runner_that_works_at_once_hands_each_token_out_before_the_next_step() {
    for (options, make) in loops().into_iter().skip(3) {
        let mut fake = make(64);
        let (out, stats) = go(&mut fake, &[5, 6], 0, 4, options, None).unwrap();
        assert_eq!((out, fake.most_unfinished, fake.logit_rows), (vec![7, 8, 9, 0], 1, 0));
        assert!(stats.per_token.iter().all(|token| token.submits == 1), "{:?}", stats.per_token);
    }
}

#[test]
fn times_are_those_of_the_steps_that_made_the_tokens_without_pipelines() {
    let (step, pipelines) = (Duration::from_millis(40), Duration::from_millis(300));
    let mut fake = FakeRunner::new(64).at_once(step, pipelines);
    let (_, stats) = go(&mut fake, &[5, 6, 7], 0, 2, greedy(), None).unwrap();
    // A step for the prompt and one for the second token, each the first of its shape.
    for (what, ms) in [("prompt", stats.prompt_ms), ("generated", stats.generate_ms)] {
        assert!((40.0..300.0).contains(&ms), "{what}: expected 40 ms, found {ms}");
    }
    assert!(stats.build_ms >= 600.0, "{}", stats.build_ms);
}

/// Chains whose draws depend on all they may depend on: chance, recent ids, bans.
fn chains(seed: i64) -> Vec<SamplerOptions> {
    let plain = SamplerOptions { seed, temperature: 1.5, ..Default::default() };
    let window = SamplerOptions { repeat_penalty: 1.4, presence_penalty: 0.5, repeat_last_n: 3, ..plain.clone() };
    vec![
        plain.clone(),
        SamplerOptions { temperature: 0.0, ..window.clone() },
        SamplerOptions { repeat_last_n: 1, ..window.clone() },
        SamplerOptions { repeat_last_n: -1, frequency_penalty: 0.3, ..window.clone() },
        SamplerOptions { banned: vec![2, 3], ..window },
    ]
}

/// Three replies of one conversation, the first ended by an end token or the limit, with the same sampler.
fn conversation(fake: &mut FakeRunner, options: SamplerOptions, end: Option<u32>) -> Vec<Vec<u32>> {
    let (mut sampler, stop, mut start) = (Sampler::new(options), AtomicBool::new(false), 0);
    let mut replies = Vec::new();
    let mut pending = None;
    for n_predict in [30, 7, -1] {
        let prompt: Vec<u32> = pending.into_iter().chain([1, 5]).collect();
        let is_end = |id| Some(id) == end;
        let request = Request {
            prompt: &prompt,
            media: &pumex::step::Media::new(),
            start,
            n_predict,
            is_end: &is_end,
            stop: &stop,
            counters: false,
        };
        let mut out = Vec::new();
        let stats = generate(fake, &request, &mut sampler, &mut |id| out.push(id)).unwrap();
        assert_eq!(fake.cache.len(), stats.held, "the runner holds what the statistics say");
        (start, pending) = (stats.held, stats.pending);
        replies.push(out);
    }
    replies
}

#[test]
fn running_ahead_changes_no_draw_of_a_whole_conversation() {
    for seed in 0..8 {
        for (options, end) in chains(seed).into_iter().flat_map(|o| [(o.clone(), None), (o, Some(7))]) {
            let (mut host, mut device) = (FakeRunner::new(64), FakeRunner::new(64).drawing(true));
            let truth = conversation(&mut host, options.clone(), end);
            assert_eq!(conversation(&mut device, options.clone(), end), truth, "{options:?}");
            assert_eq!(host.cache, device.cache);
            assert_eq!((device.most_unfinished, device.logit_rows, host.drawn_rows), (2, 0, 0));
        }
    }
}

#[test]
fn a_draw_that_is_undone_comes_again() {
    let mut sampler = Sampler::new(SamplerOptions { seed: 3, ..Default::default() });
    let first = sampler.request(true);
    let second = sampler.request(true);
    sampler.undo_request();
    assert_eq!(sampler.request(true), second);
    assert_ne!(first.unit, second.unit);
}

#[test]
fn all_loops_stop_at_ends_limits_and_the_context() {
    for (options, make) in loops() {
        let (out, stats) = go(&mut make(64), &[5], 0, -1, options.clone(), Some(9)).unwrap();
        assert_eq!((out, stats.stop), (vec![6, 7, 8], StopReason::End));
        let (out, stats) = go(&mut make(8), &[0; 5], 0, -1, options.clone(), None).unwrap();
        assert_eq!((out, stats.stop), (vec![1, 2, 3], StopReason::ContextFull));
        let (out, stats) = go(&mut make(8), &[0; 8], 0, 3, options.clone(), None).unwrap();
        assert_eq!((out.len(), stats.stop), (0, StopReason::ContextFull));
        let (out, stats) = go(&mut make(8), &[0; 5], 0, 0, options, None).unwrap();
        assert_eq!((out.len(), stats.stop), (0, StopReason::Limit));
    }
}

#[test]
fn a_banned_end_is_passed_over_in_all_loops() {
    for (options, make) in loops() {
        let options = SamplerOptions { banned: vec![9], ..options };
        let (out, stats) = go(&mut make(64), &[3, 4, 5, 6, 7], 0, 6, options, Some(9)).unwrap();
        // After 8 the best is 9; the next best is 0.
        assert_eq!((out, stats.stop), (vec![8, 0, 1, 2, 3, 4], StopReason::Limit));
    }
}

#[test]
fn a_stop_flag_ends_after_the_token_under_way_and_a_continuation_joins_on() {
    for (options, make) in loops() {
        let mut fake = make(64);
        let stop = AtomicBool::new(false);
        let request = Request {
            prompt: &[1],
            media: &pumex::step::Media::new(),
            start: 0,
            n_predict: -1,
            is_end: &|_| false,
            stop: &stop,
            counters: false,
        };
        let mut out = Vec::new();
        let mut on_token = |id| {
            out.push(id);
            stop.store(out.len() == 3, std::sync::atomic::Ordering::Relaxed);
        };
        let stats = generate(&mut fake, &request, &mut Sampler::new(options.clone()), &mut on_token).unwrap();
        assert_eq!((out, stats.stop), (vec![2, 3, 4], StopReason::Interrupted));
        assert_eq!((stats.held, stats.pending), (3, Some(4)));
        let (out, _) = go(&mut fake, &[4], stats.held, 2, options, None).unwrap();
        assert_eq!(out, [5, 6]);
        assert_eq!(fake.cache, [1, 2, 3, 4, 5]);
    }
}

#[test]
fn prompts_that_cannot_run_are_refused_by_name() {
    let fails = |prompt: &[u32]| match go(&mut FakeRunner::new(4), prompt, 0, 1, greedy(), None) {
        Err(Error::Request(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    };
    assert!(fails(&[]).contains("empty"));
    assert!(fails(&[3, 10]).contains("token id 10 is out of range: the vocabulary has 10"));
    assert!(fails(&[0; 5]).contains("needs 5 positions, the context has 4"));
}

#[test]
fn perplexity_scores_the_second_half_of_each_window() {
    // Every id follows its forerunner with logit 3, except where a window of 8 is cut by `% 10`.
    let text: Vec<u32> = (0..24).map(|i| i % 10).collect();
    let stop = AtomicBool::new(false);
    let mut seen = Vec::new();
    let options = PerplexityOptions { n_ctx: 8, bos: Some(5), windows: None };
    let mut fake = FakeRunner::new(8);
    let result = perplexity(&mut fake, &text, &options, &stop, &mut |d, of, p| seen.push((d, of, p))).unwrap();
    let expected = (3f64.exp() + 2f64.exp() + 8.0) / 3f64.exp();
    assert_eq!((result.windows, result.scored_tokens, fake.logit_rows), (3, 9, 9));
    assert!((result.ppl - expected).abs() < 1e-6, "{} {expected}", result.ppl);
    assert!(result.uncertainty < 1e-6);
    assert_eq!(seen.len(), 3);
    assert!(perplexity(&mut fake, &text[..15], &options, &stop, &mut |_, _, _| ()).is_err());
}

#[test]
fn perplexity_has_the_standard_error_of_the_mean() {
    // Window of 4 scores one id: a hit (logit 3) in one window, a miss (logit 0) in the other.
    let text = [0, 0, 0, 1, 0, 0, 0, 5];
    let options = PerplexityOptions { n_ctx: 4, bos: None, windows: None };
    let stop = AtomicBool::new(false);
    let result = perplexity(&mut FakeRunner::new(4), &text, &options, &stop, &mut |_, _, _| ()).unwrap();
    let total = (3f64.exp() + 2f64.exp() + 8.0).ln();
    let mean = total - 1.5;
    assert!((result.ppl - mean.exp()).abs() < 1e-5);
    // Two losses 3 apart: variance of the population 2.25, over count - 1 = 1.
    assert!((result.uncertainty - 1.5 * mean.exp()).abs() < 1e-4, "{result:?}");
}

#[test]
fn other_options_leave_recent_ids_and_random_numbers_as_they_are() {
    let logits: Vec<f32> = (0..40).map(|i| (i % 7) as f32 * 0.3).collect();
    let adaptive = [sample::Step::TopK, sample::Step::AdaptiveP].to_vec();
    let usual = SamplerOptions { seed: 7, repeat_penalty: 1.3, top_k: 0, temperature: 1.0, ..Default::default() };
    let chains = [
        usual.clone(),
        SamplerOptions { mirostat: 2, ..usual.clone() },
        SamplerOptions { order: adaptive, adaptive_target: 0.3, ..usual.clone() },
    ];
    let next = |s: &mut Sampler, n: usize| -> Vec<u32> {
        let one = |_| {
            let id = s.sample(&logits).unwrap();
            s.accept(id);
            id
        };
        (0..n).map(one).collect()
    };
    for chain in chains {
        let mut changed = Sampler::new(chain.clone());
        let mut same = changed.clone();
        assert_eq!(next(&mut changed, 9), next(&mut same, 9));
        // Nothing that this chain draws depends on it.
        changed.change(SamplerOptions { min_keep: 1, ..chain.clone() });
        assert_eq!(next(&mut changed, 9), next(&mut same, 9), "{chain:?}");
        assert_eq!(changed.request(false).recent, same.request(false).recent);
        changed.change(SamplerOptions { mirostat: 1, ..chain.clone() });
        changed.change(chain.clone());
        assert_eq!(
            (changed.given_options(), changed.options()),
            (&chain, &chain.clone().disable_neutral_steps()),
            "nothing is lost"
        );
        changed.change(SamplerOptions { seed: 8, ..chain.clone() });
        assert_eq!(changed.request(false).unit, Sampler::new(SamplerOptions { seed: 8, ..chain }).request(false).unit);
    }
    let mut s = Sampler::new(usual);
    let mut units = |n: u64| {
        s.redraw(n);
        [s.request(false).unit, s.request(false).unit]
    };
    assert!(units(1) == units(1) && units(1) != units(2) && units(0) != units(1));
    (0..100).for_each(|id| s.accept(id));
    s.look_back(&[3, 4, 5]);
    assert_eq!(s.request(false).recent, [3, 4, 5]);
}
