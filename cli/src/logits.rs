//! `pumex logits`: the logits of every position, written as little-endian f32, row after row. Of a model with an encoder, they are
//! those of an answer that is its own source.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pumex_dialogue::projector::{shape_of, TextSide};
use pumex_engine::conversation::{check_feed, feed_rows, feed_source, run_chunks, Feed};
use pumex_gguf::{Error, Gguf, Result};
use pumex_model as model;
use pumex_plan::Plan;
use pumex_step::RowOutput;
use pumex_text::Tokenizer;
use serde_json::json;

use super::prompted_model::PromptedModelArgs;
use super::{files, output, session, CommandEnd};

/// Options of `logits`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: PromptedModelArgs,
    /// Token ids in place of a text
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with_all = ["prompt", "file"])]
    tokens: Vec<u32>,
    /// File to write, [positions, vocabulary] x f32
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Print one JSON object with what was written
    #[arg(long)]
    json: bool,
}

/// Writes the file.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let gguf = args.input.open()?;
    let plan = model::plan(&gguf)?;
    let feed = feed(args, &gguf, &plan)?;
    let ids = &feed.ids;
    if ids.is_empty() {
        return Err(Error::Request("the prompt is empty: at least one token is needed".into()));
    }
    let n_ctx = u32::try_from(ids.len()).map_err(|_| Error::Request(format!("{} tokens are too many", ids.len())))?;
    // What guards others' outputs should have no error of its own, where that costs only time.
    let mut engine = args.input.engine.clone();
    engine.exact_on_cpu = engine.activations.is_none();
    let alike = feed.media.iter().filter(|(_, medium)| medium.sees_itself()).map(|(_, medium)| medium.rows()).max();
    if let Some(most) = alike {
        engine.take_rows(most as u32);
    }
    let answers = plan.encoder.is_some();
    if answers || plan.looks_ahead() {
        engine.take_rows(n_ctx);
    }
    let n_ctx = if answers { n_ctx.saturating_mul(2) } else { n_ctx };
    let mut file = files::create(&args.out)?;
    let mut runner = session::load(&gguf, &engine, Some(n_ctx), stop)?;
    check_feed(ids, 0, &feed.media, runner.n_vocab())?;
    let begun = Instant::now();
    if answers {
        // The ids are the source and, after it, the answer.
        feed_source(&mut *runner, ids)?;
    }
    let start = if answers { ids.len() } else { 0 };
    let rows = feed_rows(ids, start, &feed.media, |_| RowOutput::Logits);
    let whole = run_chunks(&mut *runner, &rows, stop, &mut |output| {
        output.logits.iter().try_for_each(|x| file.write(&x.to_le_bytes()))
    })?;
    if !whole {
        return Ok(CommandEnd::Interrupted);
    }
    file.finish()?;
    if args.json {
        output::json(&json!({
            "tokens": ids.len(),
            "n_vocab": runner.n_vocab(),
            "bytes": ids.len() * runner.n_vocab() * 4,
            "ms": begun.elapsed().as_secs_f64() * 1e3,
            "device": runner.device(),
            "out": args.out.display().to_string(),
        }))?;
    } else {
        output::say(format_args!("wrote {} x {} logits to {}\n", ids.len(), runner.n_vocab(), args.out.display()));
    }
    Ok(CommandEnd::Done)
}

/// The prompt: ids, or a text with media in it.
fn feed(args: &Args, gguf: &Gguf, plan: &Plan) -> Result<Feed> {
    if !args.tokens.is_empty() {
        return Ok(Feed { ids: args.tokens.clone(), ..Feed::default() });
    }
    let tokenizer = Tokenizer::from_gguf(gguf)?;
    let text = args.input.prompt.require_text()?;
    if args.input.media.is_empty() {
        return Ok(Feed { ids: tokenizer.encode(&text, tokenizer.add_bos(), true)?, ..Feed::default() });
    }
    let projector = args.input.media.projector.require_projector(&args.input.model, gguf, &args.input.engine)?;
    let (n_embd, m_rope) = shape_of(gguf, plan)?;
    projector.feed(&text, &args.input.media.files()?, &TextSide { tokenizer: &tokenizer, n_embd, m_rope })
}
