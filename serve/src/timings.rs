//! Where an answer's time went, as llama.cpp says it.

use crate::engine::{Event, Timings};
use serde_json::{json, Value};
use std::time::Instant;

fn rate(tokens: usize, ms: f64) -> f64 {
    match tokens > 0 && ms > 0.0 {
        true => tokens as f64 * 1000.0 / ms,
        false => 0.0,
    }
}

fn each(tokens: usize, ms: f64) -> f64 {
    match tokens {
        0 => 0.0,
        n => ms.max(0.0) / n as f64,
    }
}

/// `timings`. The first token comes with the prompt, so the rate of the others is of one token less.
pub(crate) fn json(t: &Timings) -> Value {
    let later = t.predicted_tokens.saturating_sub(1);
    let mut value = json!({
        "cache_n": t.cached_tokens,
        "prompt_n": t.prompt_tokens,
        "prompt_ms": t.prompt_ms.max(0.0),
        "prompt_per_token_ms": each(t.prompt_tokens, t.prompt_ms),
        "prompt_per_second": rate(t.prompt_tokens, t.prompt_ms),
        "predicted_n": t.predicted_tokens,
        "predicted_ms": t.predicted_ms.max(0.0),
        "predicted_per_token_ms": each(later, t.predicted_ms),
        "predicted_per_second": rate(later, t.predicted_ms),
    });
    if t.draft_tokens > 0 {
        value["draft_n"] = t.draft_tokens.into();
        value["draft_n_accepted"] = t.draft_accepted.into();
    }
    value
}

/// `prompt_progress`.
pub(crate) fn progress(total: usize, cached: usize, processed: usize, ms: f64) -> Value {
    json!({"total": total, "cache": cached, "processed": processed, "time_ms": ms.max(0.0)})
}

/// Times of an answer that is not over, by when its events come.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    first: Option<Instant>,
    times: Timings,
}

impl Meter {
    pub fn new() -> Meter {
        Meter { start: Instant::now(), first: None, times: Timings::default() }
    }

    /// Takes notice of an event, and gives the times so far.
    pub fn note(&mut self, event: &Event) -> Timings {
        match event {
            Event::Started { prompt_tokens, cached_tokens, at, .. } => {
                self.start = *at;
                self.times.prompt_tokens = prompt_tokens.saturating_sub(*cached_tokens);
                self.times.cached_tokens = *cached_tokens;
            }
            Event::Piece { tokens, .. } => {
                let (now, start) = (Instant::now(), self.start);
                let first = *self.first.get_or_insert(now);
                self.times.predicted_tokens += tokens.len();
                self.times.prompt_ms = (first - start).as_secs_f64() * 1e3;
                self.times.predicted_ms = (now - first).as_secs_f64() * 1e3;
            }
            _ => {}
        }
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_null_or_negative() {
        let one = Timings { predicted_tokens: 1, prompt_tokens: 5, prompt_ms: 10.0, ..Timings::default() };
        let two = Timings { predicted_tokens: 3, predicted_ms: 4.0, ..one };
        let (zero, one, two) = (json(&Timings::default()), json(&one), json(&two));
        assert!(zero.as_object().unwrap().values().all(|v| v.as_f64().is_some_and(|f| f >= 0.0)));
        assert_eq!((&one["predicted_per_second"], &one["prompt_per_second"]), (&json!(0.0), &json!(500.0)));
        assert_eq!((&two["predicted_per_second"], &two["predicted_per_token_ms"]), (&json!(500.0), &json!(2.0)));
    }
}
