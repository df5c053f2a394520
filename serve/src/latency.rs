//! How long clients wait: for the first token, between tokens, for a whole answer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Upper bounds of the buckets in seconds, those of OpenTelemetry's conventions for first tokens and answers.
const LONG: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of the histograms of tokens' times, seconds.
const SHORT: &[f64] = &[0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];

/// Counts of times by bucket.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    pub bounds: &'static [f64],
    /// One more than bounds.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, time: Duration, times: usize) {
        let seconds = time.as_secs_f64();
        let bucket = self.bounds.iter().position(|b| seconds <= *b).unwrap_or(self.bounds.len());
        self.counts[bucket] += times as u64;
        self.sum += seconds * times as f64;
    }
}

/// All that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub first_token: Histogram,
    pub between_tokens: Histogram,
    pub whole: Histogram,
    pub queued: Histogram,
}

/// All that is measured, for all requests.
pub(crate) struct Latencies(Mutex<Times>);

impl Default for Latencies {
    fn default() -> Latencies {
        let (long, short) = (|| Histogram::new(LONG), Histogram::new(SHORT));
        Latencies(Mutex::new(Times { first_token: long(), between_tokens: short, whole: long(), queued: long() }))
    }
}

impl Latencies {
    pub fn snapshot(&self) -> Times {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Times of one request.
pub(crate) struct Clock {
    start: Instant,
    /// By answer: when its latest tokens came.
    latest: Vec<Option<Instant>>,
}

impl Clock {
    pub fn new(answers: usize) -> Clock {
        Clock { start: Instant::now(), latest: vec![None; answers] }
    }

    pub fn left_queue(&self, latencies: &Latencies) {
        latencies.change(|t| t.queued.add(self.start.elapsed(), 1));
    }

    pub fn tokens(&mut self, latencies: &Latencies, answer: usize, tokens: usize) {
        let Some(latest) = self.latest.get_mut(answer).filter(|_| tokens > 0) else { return };
        let now = Instant::now();
        let first = self.start;
        match latest.replace(now) {
            None => latencies.change(|t| t.first_token.add(now - first, 1)),
            Some(before) => latencies.change(|t| t.between_tokens.add((now - before) / tokens as u32, tokens)),
        }
    }

    pub fn record_latency(&self, latencies: &Latencies) {
        latencies.change(|t| t.whole.add(self.start.elapsed(), 1));
    }
}
