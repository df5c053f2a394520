//! `pumex perplexity`: perplexity of a text; the last line on stdout is the final estimate.

use std::sync::atomic::{AtomicBool, Ordering};

use pumex::conversation::{self, PerplexityOptions};
use pumex::text::Tokenizer;
use pumex::{Error, Result};
use serde_json::json;

use super::input::PromptArgs;
use super::options::{EngineArgs, ModelArgs};
use super::{output, session, End};

/// Options of `perplexity`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Tokens per window
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    ctx_size: u32,
    /// Most windows to score; -1 is all
    #[arg(long, value_name = "N", default_value_t = -1)]
    chunks: i64,
    /// Print one JSON object in place of the running estimates
    #[arg(long)]
    json: bool,
}

/// Scores the text.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<End> {
    let text = args.prompt.required()?;
    let gguf = session::open(&args.model)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let add_bos = tokenizer.add_bos();
    let ids = tokenizer.encode(&text, add_bos, false)?;
    let bos = if add_bos { tokenizer.encode("", true, false)?.first().copied() } else { None };
    let windows = usize::try_from(args.chunks).ok();
    let options = PerplexityOptions { n_ctx: args.ctx_size as usize, bos, windows };
    let mut runner = session::load(&gguf, &args.engine, Some(args.ctx_size), stop)?;
    let bar = session::bar("perplexity", "{msg} {wide_bar} {pos}/{len} {eta}");
    let mut closed = None;
    let result = conversation::perplexity(&mut *runner, &ids, &options, stop, &mut |done, of, ppl| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        if !args.json && closed.is_none() {
            closed = bar.suspend(|| output::text(&format!("[{done}]{ppl:.4},"))).err();
        }
    })?;
    bar.finish_and_clear();
    if let Some(error) = closed {
        return Err(error);
    }
    let interrupted = stop.load(Ordering::Relaxed);
    if result.windows == 0 && !interrupted {
        return Err(Error::Request("no window was scored: --chunks 0 leaves nothing to do".into()));
    }
    if args.json {
        output::json(&json!({
            "ppl": result.ppl,
            "uncertainty": result.uncertainty,
            "windows": result.windows,
            "scored_tokens": result.scored_tokens,
            "n_ctx": args.ctx_size,
            "device": runner.device(),
            "interrupted": interrupted,
        }))?;
    } else if interrupted {
        output::text("\n")?;
    } else {
        output::text(&format!("\nFinal estimate: PPL = {:.4} +/- {:.5}\n", result.ppl, result.uncertainty))?;
    }
    Ok(if interrupted { End::Interrupted } else { End::Done })
}
