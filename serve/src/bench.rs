//! `pumex bench-serve`: load on a server that speaks OpenAI's API, and what its clients see.

mod client;
mod picture;
mod prompts;
mod statistics;
mod table;

pub use prompts::Prompts;
pub use statistics::{LoadReport, RequestTimes, Spread};

use client::LoadTarget;
use prompts::PromptRng;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, Semaphore};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// What is asked, how often, and of whom.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server, as `http://127.0.0.1:8080`; a path in it stands before `/v1`.
    pub url: String,
    /// Whether conversations are asked for; otherwise completions.
    pub chat: bool,
    /// The model's name; none lets the server choose.
    pub model: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// Requests in all.
    pub requests: usize,
    /// When they are sent.
    pub arrivals: Arrivals,
    /// What is asked.
    pub prompts: Prompts,
    /// Tokens of each answer, at most; with `ignore_eos` at least, too.
    pub output_tokens: usize,
    /// Whether answers go on after their end, which not every server can do.
    pub ignore_eos: bool,
    /// Makes prompts and times of arrival the same in each run.
    pub seed: u64,
    /// Times within which a request is a good one.
    pub goals: Goals,
    /// For a request.
    pub timeout: Duration,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Each of so many users asks as soon as the last answer is over.
    Users(usize),
    /// So many a second on average, at random times (a Poisson process), however many run.
    Rate(f64),
}

/// Times within which a request is a good one, milliseconds; none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goals {
    /// To the first token.
    pub first_token: Option<f64>,
    /// Between tokens, on average.
    pub between_tokens: Option<f64>,
    /// To the end.
    pub whole: Option<f64>,
}

/// Sends the load and waits for all answers. Blocks; `progress` is told how many are over.
///
/// # Errors
/// A URL that is none; no request that got an answer.
pub fn run(load: &Load, mut progress: impl FnMut(usize)) -> Result<LoadReport, Error> {
    let target = Arc::new(LoadTarget::new(load)?);
    let mut random = PromptRng(load.seed);
    let prompts = load.prompts.make(load.requests, &mut random)?;
    let (users, waits) = match load.arrivals {
        Arrivals::Users(0) => return Err(Error("expected at least one user, found none".into())),
        Arrivals::Users(users) => (users, vec![Duration::ZERO; load.requests]),
        Arrivals::Rate(rate) if rate > 0.0 && rate.is_finite() => {
            let waits = (0..load.requests).map(|_| Duration::from_secs_f64(-random.unit().ln() / rate)).collect();
            (Semaphore::MAX_PERMITS, waits)
        }
        Arrivals::Rate(rate) => return Err(Error(format!("expected a rate above 0, found {rate}"))),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| Error(format!("threads: {e}")))?;
    let (samples, wall) = runtime.block_on(async {
        let places = Arc::new(Semaphore::new(users));
        let (sender, mut results) = mpsc::channel(1024);
        let begun = Instant::now();
        let feed = tokio::spawn(async move {
            for (prompt, wait) in prompts.into_iter().zip(waits) {
                tokio::time::sleep(wait).await;
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let (target, sender) = (target.clone(), sender.clone());
                tokio::spawn(async move {
                    let sample = target.ask(&prompt, begun).await;
                    drop(place);
                    // The receiver outlives all senders.
                    let _ = sender.send(sample).await;
                });
            }
        });
        let mut samples = Vec::new();
        while let Some(sample) = results.recv().await {
            samples.push(sample);
            progress(samples.len());
        }
        let _ = feed.await;
        (samples, begun.elapsed())
    });
    LoadReport::new(load, samples, wall)
}
