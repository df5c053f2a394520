//! `pumex perplexity`: perplexity of a text; the last line on stdout is the final estimate.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pumex_engine::conversation;
use pumex_engine::conversation::{Base, BaseWriter, Divergence, PerplexityOptions, Summary};
use pumex_gguf::{Error, Result};
use pumex_model as model;
use pumex_text::Tokenizer;
use serde_json::json;

use super::adapters::AdapterArgs;
use super::options::{EngineArgs, ModelArgs};
use super::prompt_source::PromptArgs;
use super::{files, output, session, CommandEnd};

/// Options of `perplexity`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    adapters: AdapterArgs,
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
    /// Save the log-probabilities here; with --kl-divergence, compare with those saved here by another model
    #[arg(long, value_name = "FILE")]
    kl_divergence_base: Option<PathBuf>,
    /// Compare with the base: KL divergence, agreement on the likeliest token, change of probabilities
    #[arg(long, requires = "kl_divergence_base")]
    kl_divergence: bool,
    /// Print one JSON object in place of the running estimates
    #[arg(long)]
    json: bool,
}

/// Scores the text.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let gguf = args.adapters.attach(session::open(&args.model)?)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let add_bos = tokenizer.add_bos();
    let base = match &args.kl_divergence_base {
        Some(path) if args.kl_divergence => Some(Base::open(path, model::plan(&gguf)?.n_vocab)?),
        _ => None,
    };
    // A base brings its own ids, so that the same positions are compared.
    let ids = match &base {
        Some(base) => base.ids(),
        None => tokenizer.encode(&args.prompt.require_text()?, add_bos, false)?,
    };
    let ctx_size = base.as_ref().map_or(args.ctx_size, |base| base.n_ctx as u32);
    let bos = if add_bos { tokenizer.encode("", true, false)?.first().copied() } else { None };
    let windows = usize::try_from(args.chunks).ok().or(base.as_ref().map(|base| base.windows));
    let options = PerplexityOptions { n_ctx: ctx_size as usize, bos, windows };
    let mut runner = session::load(&gguf, &args.engine, Some(ctx_size), stop)?;
    let mut divergence = base.map(Divergence::new);
    let mut saved = match &args.kl_divergence_base {
        Some(path) if !args.kl_divergence && options.n_ctx >= 4 => {
            let windows = (ids.len() / options.n_ctx).min(windows.unwrap_or(usize::MAX));
            files::check(path)?;
            Some(BaseWriter::create(path, options.n_ctx, runner.n_vocab(), windows, &ids)?)
        }
        _ => None,
    };
    let bar = session::bar("perplexity", "{msg} {wide_bar} {pos}/{len} {eta}");
    let mut closed = None;
    let on_window = &mut |done: usize, of: usize, ppl: f64| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        if !args.json && closed.is_none() {
            closed = bar.suspend(|| output::text(&format!("[{done}]{ppl:.4},"))).err();
        }
    };
    let judge: conversation::Judge<'_> = &mut |logits, targets| {
        saved.iter_mut().try_for_each(|saved| saved.rows(logits))?;
        divergence.iter_mut().try_for_each(|divergence| divergence.rows(logits, targets))
    };
    let result = conversation::perplexity_with(&mut *runner, &ids, &options, stop, on_window, judge)?;
    bar.finish_and_clear();
    if let Some(error) = closed {
        return Err(error);
    }
    let interrupted = stop.load(Ordering::Relaxed);
    if result.windows == 0 && !interrupted {
        return Err(Error::Request("no window was scored: --chunks 0 leaves nothing to do".into()));
    }
    if let (Some(saved), false) = (saved, interrupted) {
        saved.finish()?;
    }
    let summary = divergence.as_ref().and_then(Divergence::summary);
    if args.json {
        output::json(&json!({
            "ppl": result.ppl,
            "uncertainty": result.uncertainty,
            "windows": result.windows,
            "scored_tokens": result.scored_tokens,
            "n_ctx": ctx_size,
            "divergence": summary,
            "device": runner.device(),
            "interrupted": interrupted,
        }))?;
    } else if interrupted {
        output::text("\n")?;
    } else {
        if let Some(summary) = &summary {
            output::text(&report(summary, result.ppl))?;
        }
        output::text(&format!("\nFinal estimate: PPL = {:.4} +/- {:.5}\n", result.ppl, result.uncertainty))?;
    }
    Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
}

/// llama.cpp's blocks: perplexities, divergence, probabilities of the right token.
fn report(s: &Summary, ppl: f64) -> String {
    let mut lines = vec![
        "\n\n====== Perplexity statistics ======".to_string(),
        format!("Mean PPL(Q)                   : {ppl:.6}"),
        format!("Mean PPL(base)                : {:.6}", s.ppl_base),
        format!("Mean ln(PPL(Q)/PPL(base))     : {:.6}", (ppl / s.ppl_base).ln()),
        format!("Mean PPL(Q)/PPL(base)         : {:.6}", ppl / s.ppl_base),
        "\n====== KL divergence statistics ======".to_string(),
        format!("Mean    KLD: {:.6} ± {:.6}", s.mean, s.uncertainty),
        format!("Maximum KLD: {:.6}", s.maximum),
    ];
    lines.extend(s.percentiles.iter().map(|(percent, value)| format!("{percent:5.1}%  KLD: {value:.6}")));
    lines.extend([
        format!("Minimum KLD: {:.6}", s.minimum),
        "\n====== Token probability statistics ======".to_string(),
        format!("Mean Δp: {:.3} %", 100.0 * s.mean_difference),
        format!("RMS  Δp: {:.3} %", 100.0 * s.rms_difference),
        format!("Same top p: {:.3} %", 100.0 * s.same_top),
    ]);
    lines.join("\n") + "\n"
}
