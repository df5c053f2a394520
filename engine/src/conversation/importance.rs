//! An importance matrix from a text: the mean squares of every product's inputs, collected where the model runs.

use std::sync::atomic::AtomicBool;

use super::{check_ids, feed_source, rows, run_chunks, PerplexityOptions};
use pumex_gguf::imatrix::{Imatrix, ImatrixEntry};
use pumex_gguf::{Error, Result};
use pumex_step::{RowOutput, Runner, Squares};

/// Runs `ids` in windows as perplexity does and collects; where the model answers sources, a window is both source and answer.
/// `on_window(done, of)` is called after each window. A set `stop` ends it early with what is collected so far.
///
/// # Errors
/// No whole window of ids, a window the runner's context cannot hold, a failing runner.
pub fn importance(
    runner: &mut dyn Runner,
    ids: &[u32],
    options: &PerplexityOptions,
    stop: &AtomicBool,
    on_window: &mut dyn FnMut(usize, usize),
) -> Result<Imatrix> {
    let (n_ctx, answers) = (options.n_ctx, runner.answers_from().is_some());
    let most = if answers { runner.n_ctx() / 2 } else { runner.n_ctx() };
    if n_ctx == 0 || n_ctx > most {
        return Err(Error::Request(format!("window: expected 1 to {most} tokens, found {n_ctx}")));
    }
    let total = (ids.len() / n_ctx).min(options.windows.unwrap_or(usize::MAX));
    if total == 0 {
        return Err(Error::Request(format!("the text: expected at least {n_ctx} tokens, found {}", ids.len())));
    }
    check_ids(ids, runner.n_vocab())?;
    runner.collect_importance()?;
    let mut done = 0;
    for window in ids.chunks_exact(n_ctx).take(total) {
        let mut fed = window.to_vec();
        if let Some(bos) = options.bos {
            fed[0] = bos;
        }
        runner.forget(0, 0);
        if answers {
            feed_source(runner, &fed)?;
        }
        let start = if answers { n_ctx } else { 0 };
        if !run_chunks(runner, &rows(&fed, start, |_| RowOutput::None), stop, &mut |_| Ok(()))? {
            break;
        }
        done += 1;
        on_window(done, total);
    }
    runner.forget(0, 0);
    let count = (done * n_ctx) as f32;
    let mut out = Imatrix { chunks: done as u32, ..Imatrix::default() };
    for Squares { names, sums, counts } in runner.importance()? {
        let counts = if counts.is_empty() { vec![count] } else { counts };
        let cols = sums.len() / counts.len();
        // An expert that no row reached has zeros; its columns count alike.
        let of = |(i, s): (usize, &f32)| match counts[i / cols] {
            0.0 => 1.0,
            n => s / n,
        };
        let mean: Vec<f32> = sums.iter().enumerate().map(of).collect();
        for name in names {
            out.entries
                .insert(name, ImatrixEntry { mean: mean.clone(), matrices: counts.len(), counts: counts.clone() });
        }
    }
    Ok(out)
}
