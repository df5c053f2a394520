//! `--prompt-cache`: what a prompt left in the model's memory, kept in a file for the next run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pumex_engine::state;
use pumex_gguf::{Error, Gguf, Result};
use pumex_step::{Row, RowOutput, Runner, Token, Want};

use super::output;

/// Options of the cache.
#[derive(clap::Args, Clone, Debug)]
pub struct CacheArgs {
    /// File that keeps what the model made of the prompt: read if it is there, then written
    #[arg(long, value_name = "FILE")]
    prompt_cache: Option<PathBuf>,
    /// Keep what is generated, too
    #[arg(long, requires = "prompt_cache")]
    prompt_cache_all: bool,
    /// Only read the file
    #[arg(long, requires = "prompt_cache")]
    prompt_cache_ro: bool,
}

/// The file of a run.
pub struct PromptCache {
    path: PathBuf,
    fingerprint: u64,
    all: bool,
    read_only: bool,
}

/// What is done of a prompt before it is generated from.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachedPrompt {
    /// Ids that the runner holds.
    pub held: usize,
    /// Ids of the prompt that went through the model now.
    pub now: usize,
    /// Milliseconds that took, and those that a GPU's pipelines took beside.
    pub ms: f64,
    pub build_ms: f64,
}

impl CacheArgs {
    /// The file that is asked for.
    pub fn of(&self, gguf: &Gguf) -> Option<PromptCache> {
        let path = self.prompt_cache.clone()?;
        let (all, read_only) = (self.prompt_cache_all, self.prompt_cache_ro);
        Some(PromptCache { path, fingerprint: state::fingerprint(gguf), all, read_only })
    }
}

/// Has sequence 0 hold the first `wanted` ids, of which it holds some.
///
/// # Errors
/// A failing runner.
pub fn feed(runner: &mut dyn Runner, ids: &[u32], wanted: usize, stop: &AtomicBool) -> Result<CachedPrompt> {
    let (begun, first, built_us) = (Instant::now(), runner.sequence_len(0), runner.counters().build_us);
    let wanted = wanted.min(runner.n_ctx());
    let mut held = first;
    while held < wanted && !stop.load(Ordering::Relaxed) {
        let next = (held + runner.max_rows()).min(wanted);
        let row = |pos: usize| Row {
            seq: 0,
            pos: pos as u32,
            token: Token::Id(ids[pos]),
            output: RowOutput::None,
            medium: None,
        };
        runner.run(&(held..next).map(row).collect::<Vec<_>>(), Want::Ids)?;
        held = next;
    }
    let build_ms = (runner.counters().build_us - built_us) / 1e3;
    let ms = (begun.elapsed().as_secs_f64() * 1e3 - build_ms).max(0.0);
    Ok(CachedPrompt { held, now: held - first, ms, build_ms })
}

impl PromptCache {
    /// Has sequence 0 hold all ids but the last one, from the file as far as it goes, and saves that.
    ///
    /// # Errors
    /// A file that is not one of this model and device, or is damaged; a full disk; a failing runner; a model with an encoder.
    pub fn feed(&self, runner: &mut dyn Runner, ids: &[u32], stop: &AtomicBool) -> Result<CachedPrompt> {
        if runner.answers_from().is_some() {
            let what = "--prompt-cache: expected a model that continues texts, found one that answers them";
            return Err(Error::Request(what.into()));
        }
        let wanted = ids.len().saturating_sub(1);
        if wanted > runner.n_ctx() {
            return Ok(CachedPrompt::default()); // to be refused where all prompts are
        }
        if self.path.exists() {
            let saved = state::load(&self.path, self.fingerprint, runner, 0)?;
            let common = saved.iter().zip(&ids[..wanted]).take_while(|(a, b)| a == b).count();
            // A recurrent state is that of all its ids, or of none.
            runner.forget(0, common as u32);
            output::say(format_args!("prompt cache: {} of {} tokens\n", runner.sequence_len(0), ids.len()));
        }
        let fed = feed(runner, ids, wanted, stop)?;
        if fed.now > 0 && fed.held == wanted && !self.read_only && !self.all {
            state::save(&self.path, self.fingerprint, &ids[..fed.held], runner, 0)?;
        }
        Ok(fed)
    }

    /// Saves what sequence 0 holds in the end, which are the first of `ids`, if that is wanted.
    ///
    /// # Errors
    /// A full disk, a failing runner.
    pub fn keep_all(&self, runner: &mut dyn Runner, ids: &[u32], held: usize) -> Result<()> {
        if !self.all || self.read_only {
            return Ok(());
        }
        runner.forget(0, held as u32);
        match runner.sequence_len(0) {
            0 => tracing::warn!("{}: not written, as the model's state went on beyond the text", self.path.display()),
            held => state::save(&self.path, self.fingerprint, &ids[..held.min(ids.len())], runner, 0)?,
        }
        Ok(())
    }
}
