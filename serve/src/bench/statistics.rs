//! What clients saw, in numbers.

use super::{Arrivals, Error, Goals, Load};
use serde_json::{json, Value};
use std::time::Duration;

/// One request: times since the load began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestTimes {
    /// When it was sent.
    pub start: Duration,
    /// When each piece of text came.
    pub pieces: Vec<Duration>,
    /// When it was over.
    pub end: Duration,
    /// Tokens of the prompt; 0 where the server does not say.
    pub prompt_tokens: usize,
    /// Tokens of the answer, where the server says; else a piece counts as one.
    pub output_tokens: Option<usize>,
    /// Why it failed.
    pub error: Option<String>,
}

impl RequestTimes {
    /// Tokens of the answer.
    pub fn tokens(&self) -> usize {
        self.output_tokens.unwrap_or(self.pieces.len())
    }

    fn first(&self) -> Option<f64> {
        self.pieces.first().map(|p| ms(p.saturating_sub(self.start)))
    }

    /// From the first token to the last, for each of the later ones.
    fn per_token(&self) -> Option<f64> {
        let (first, last) = (self.pieces.first()?, self.pieces.last()?);
        (self.tokens() > 1).then(|| ms(last.saturating_sub(*first)) / (self.tokens() - 1) as f64)
    }

    fn gaps(&self) -> impl Iterator<Item = f64> + '_ {
        self.pieces.windows(2).map(|p| ms(p[1].saturating_sub(p[0])))
    }

    fn whole(&self) -> f64 {
        ms(self.end.saturating_sub(self.start))
    }

    fn meets(&self, goals: &Goals) -> bool {
        let within = |time: Option<f64>, goal: Option<f64>| goal.is_none_or(|g| time.is_none_or(|t| t <= g));
        self.error.is_none()
            && within(self.first(), goals.first_token)
            && within(self.per_token(), goals.between_tokens)
            && within(Some(self.whole()), goals.whole)
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How some times are spread, milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// In order.
    pub sorted: Vec<f64>,
}

impl Spread {
    pub(super) fn of(times: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = times.collect();
        sorted.sort_by(f64::total_cmp);
        Spread { sorted }
    }

    /// The least of them that so many hundredths do not exceed; 0 where there are none.
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1).min(self.sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
    }

    /// 0 where there are none.
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len().max(1) as f64
    }

    fn json(&self) -> Value {
        let p = |percent| self.percentile(percent);
        json!({"mean": self.mean(), "p50": p(50.0), "p90": p(90.0), "p95": p(95.0), "p99": p(99.0), "max": p(100.0)})
    }
}

/// What the load gave.
#[derive(Clone, Debug)]
pub struct LoadReport {
    pub(super) load: Load,
    /// All requests, in the order in which they ended.
    pub samples: Vec<RequestTimes>,
    /// From the first request to the last answer.
    pub wall: Duration,
    /// To the first token.
    pub first_token: Spread,
    /// Between pieces of text.
    pub between: Spread,
    /// Each answer's mean between its tokens.
    pub per_token: Spread,
    /// The spread of the times of whole answers.
    pub whole: Spread,
}

impl LoadReport {
    pub(super) fn new(load: &Load, samples: Vec<RequestTimes>, wall: Duration) -> Result<LoadReport, Error> {
        if let (true, Some(error)) =
            (samples.iter().all(|s| s.error.is_some()), samples.iter().find_map(|s| s.error.as_ref()))
        {
            return Err(Error(format!("{}: all requests failed: {error}", load.url)));
        }
        let good = || samples.iter().filter(|s| s.error.is_none());
        Ok(LoadReport {
            first_token: Spread::of(good().filter_map(RequestTimes::first)),
            between: Spread::of(good().flat_map(RequestTimes::gaps)),
            per_token: Spread::of(good().filter_map(RequestTimes::per_token)),
            whole: Spread::of(good().map(RequestTimes::whole)),
            load: load.clone(),
            wall,
            samples,
        })
    }

    fn good(&self) -> impl Iterator<Item = &RequestTimes> {
        self.samples.iter().filter(|s| s.error.is_none())
    }

    /// Requests that got their answer, and those that did so within the goals.
    pub fn counts(&self) -> (usize, usize) {
        (self.good().count(), self.samples.iter().filter(|s| s.meets(&self.load.goals)).count())
    }

    /// Tokens of prompts and of answers.
    pub fn tokens(&self) -> (usize, usize) {
        (self.good().map(|s| s.prompt_tokens).sum(), self.good().map(RequestTimes::tokens).sum())
    }

    pub(super) fn per_second(&self, count: usize) -> f64 {
        count as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Kinds of failures, and how often each came.
    pub fn errors(&self) -> Vec<(String, usize)> {
        let mut errors: Vec<(String, usize)> = Vec::new();
        for error in self.samples.iter().filter_map(|s| s.error.as_ref()) {
            match errors.iter_mut().find(|(e, _)| e == error) {
                Some((_, count)) => *count += 1,
                None => errors.push((error.clone(), 1)),
            }
        }
        errors
    }

    /// All numbers.
    pub fn json(&self) -> Value {
        let ((done, good), (prompt, output)) = (self.counts(), self.tokens());
        let arrivals = match self.load.arrivals {
            Arrivals::Users(users) => json!({ "users": users }),
            Arrivals::Rate(rate) => json!({ "rate": rate }),
        };
        json!({
            "url": self.load.url,
            "model": self.load.model,
            "arrivals": arrivals,
            "requests": self.samples.len(),
            "completed": done,
            "failed": self.samples.len() - done,
            "errors": self.errors().into_iter().map(|(e, n)| json!({"message": e, "count": n})).collect::<Value>(),
            "duration_s": self.wall.as_secs_f64(),
            "prompt_tokens": prompt,
            "output_tokens": output,
            "requests_per_second": self.per_second(done),
            "goodput_requests_per_second": self.per_second(good),
            "output_tokens_per_second": self.per_second(output),
            "total_tokens_per_second": self.per_second(prompt + output),
            "time_to_first_token_ms": self.first_token.json(),
            "time_between_pieces_ms": self.between.json(),
            "time_per_output_token_ms": self.per_token.json(),
            "time_of_request_ms": self.whole.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let spread = Spread::of((1..=100).rev().map(f64::from));
        assert_eq!([50.0, 90.0, 99.0, 100.0, 0.0].map(|p| spread.percentile(p)), [50.0, 90.0, 99.0, 100.0, 1.0]);
        assert_eq!((spread.mean(), Spread::default().percentile(50.0), Spread::default().mean()), (50.5, 0.0, 0.0));
        assert_eq!(Spread::of([7.0].into_iter()).percentile(99.0), 7.0);
    }

    #[test]
    fn a_request_is_good_within_all_goals() {
        let at = Duration::from_millis;
        let sample = RequestTimes {
            start: at(10),
            pieces: vec![at(30), at(40), at(60)],
            end: at(61),
            ..RequestTimes::default()
        };
        assert_eq!((sample.first(), sample.per_token(), sample.whole()), (Some(20.0), Some(15.0), 51.0));
        assert_eq!(sample.gaps().collect::<Vec<_>>(), [10.0, 20.0]);
        let goals = |first, between| Goals { first_token: Some(first), between_tokens: Some(between), whole: None };
        assert!(
            sample.meets(&goals(20.0, 15.0)) && !sample.meets(&goals(19.0, 15.0)) && !sample.meets(&goals(20.0, 14.0))
        );
        assert!(!RequestTimes { error: Some("x".into()), ..sample }.meets(&Goals::default()));
    }
}
