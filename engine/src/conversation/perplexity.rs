//! Perplexity of a text, counted as llama.cpp counts it.
//!
//! The text's ids are cut into windows of `n_ctx` ids; each window starts afresh, with BOS in place of its first id
//! when the tokenizer adds BOS. Only the second half is scored, so every scored id has at least half a window before
//! it. Takes ids and a runner, gives the estimate with its standard error.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::{check_ids, rows, run_chunks};
use pumex_gguf::{Error, Result};
use pumex_step::{RowOutput, Runner};

/// How a text is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Ids per window, at least 4.
    pub n_ctx: usize,
    /// Replaces each window's first id, when the tokenizer adds one.
    pub bos: Option<u32>,
    /// Most windows to score; `None` is all of them.
    pub windows: Option<usize>,
}

/// The estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Perplexity {
    /// exp of the mean negative log likelihood.
    pub ppl: f64,
    /// Its standard error.
    pub uncertainty: f64,
    /// Windows scored.
    pub windows: usize,
    /// Ids scored.
    pub scored_tokens: usize,
}

/// Scores `ids`; `on_window(done, of, running estimate)` is called after each window.
/// A set `stop` ends it early with what is scored so far.
///
/// # Errors
/// Fewer than two windows of ids (or the one asked for), a window that the runner's context cannot hold, or a failing runner.
pub fn perplexity(
    runner: &mut dyn Runner,
    ids: &[u32],
    options: &PerplexityOptions,
    stop: &AtomicBool,
    on_window: &mut dyn FnMut(usize, usize, f64),
) -> Result<Perplexity> {
    perplexity_with(runner, ids, options, stop, on_window, &mut |_, _| Ok(()))
}

/// Sees the logits of every scored position, `[positions, vocab]`, with the ids that came.
pub type Judge<'a> = &'a mut dyn FnMut(&[f32], &[u32]) -> Result<()>;

/// [`perplexity`] that also hands every scored position to `judge`.
///
/// # Errors
/// As for [`perplexity`]; `judge`'s own.
pub fn perplexity_with(
    runner: &mut dyn Runner,
    ids: &[u32],
    options: &PerplexityOptions,
    stop: &AtomicBool,
    on_window: &mut dyn FnMut(usize, usize, f64),
    judge: Judge<'_>,
) -> Result<Perplexity> {
    super::check_continues(runner, "perplexity")?;
    let (n_ctx, n_vocab) = (options.n_ctx, runner.n_vocab());
    if n_ctx < 4 {
        return Err(Error::Request(format!("perplexity needs a window of at least 4 tokens, got {n_ctx}")));
    }
    if n_ctx > runner.n_ctx() {
        return Err(Error::Request(format!(
            "a window of {n_ctx} tokens does not fit the context of {}",
            runner.n_ctx()
        )));
    }
    // One window says little, so two are asked for unless the caller wants just one.
    let least = n_ctx * options.windows.map_or(2, |windows| windows.clamp(1, 2));
    if ids.len() < least {
        return Err(Error::Request(format!(
            "perplexity over windows of {n_ctx} tokens needs at least {} tokens, the text has {}",
            least,
            ids.len()
        )));
    }
    check_ids(ids, n_vocab)?;
    let total = (ids.len() / n_ctx).min(options.windows.unwrap_or(usize::MAX));
    let (mut sum, mut squares, mut result) = (0.0, 0.0, Perplexity::default());
    for window in ids.chunks_exact(n_ctx).take(total) {
        let Some(losses) = score(runner, window, options, stop, judge)? else {
            break;
        };
        sum += losses.iter().sum::<f64>();
        squares += losses.iter().map(|x| x * x).sum::<f64>();
        result.windows += 1;
        result.scored_tokens += losses.len();
        (result.ppl, result.uncertainty) = estimate(sum, squares, result.scored_tokens);
        on_window(result.windows, total, result.ppl);
    }
    runner.forget(0, 0);
    Ok(result)
}

/// Losses of one window's second half; none when stopped.
fn score(
    runner: &mut dyn Runner,
    window: &[u32],
    options: &PerplexityOptions,
    stop: &AtomicBool,
    judge: Judge<'_>,
) -> Result<Option<Vec<f64>>> {
    let first = window.len() / 2;
    let n_vocab = runner.n_vocab();
    let mut fed = window.to_vec();
    if let Some(bos) = options.bos {
        fed[0] = bos;
    }
    runner.forget(0, 0);
    // The last row predicts an id of the next window, so nothing scores it.
    let scored = |i| i >= first && i + 1 < window.len();
    let rows = rows(&fed, 0, |i| if scored(i) { RowOutput::Logits } else { RowOutput::None });
    let mut targets = &window[first + 1..];
    let mut losses = Vec::with_capacity(targets.len());
    let whole = run_chunks(runner, &rows, stop, &mut |output| {
        let count = (output.logits.len() / n_vocab).min(targets.len());
        let (these, rest) = targets.split_at(count);
        targets = rest;
        judge(&output.logits[..count * n_vocab], these)?;
        let pairs = output.logits.par_chunks_exact(n_vocab).zip(these);
        losses.extend(pairs.map(|(row, &id)| loss(row, id)).collect::<Vec<f64>>());
        Ok(())
    })?;
    if whole && !targets.is_empty() {
        return Err(Error::Request(format!("the runner gave {} rows of logits too few", targets.len())));
    }
    Ok(whole.then_some(losses))
}

/// Negative log likelihood of `id` under one row of logits.
fn loss(logits: &[f32], id: u32) -> f64 {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from(x - best).exp()).sum();
    sum.ln() - f64::from(logits[id as usize] - best)
}

/// Perplexity and its standard error from summed losses, summed squares and their count.
fn estimate(sum: f64, squares: f64, count: usize) -> (f64, f64) {
    let count = count as f64;
    let mean = sum / count;
    let ppl = mean.exp();
    let variance = squares / count - mean * mean;
    let error = if variance > 0.0 && count > 1.0 { (variance / (count - 1.0)).sqrt() * ppl } else { 0.0 };
    (ppl, error)
}
