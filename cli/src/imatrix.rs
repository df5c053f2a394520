//! `pumex imatrix`: an importance matrix from a text, or the statistics of one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pumex_engine::conversation;
use pumex_engine::conversation::PerplexityOptions;
use pumex_gguf::imatrix::{Imatrix, ImatrixEntry};
use pumex_gguf::{Error, Result};
use pumex_text::Tokenizer;
use serde_json::json;

use super::options::{EngineArgs, ModelArgs};
use super::prompt_source::PromptArgs;
use super::{files, output, session, CommandEnd};

/// Options of `imatrix`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    /// The file to write (GGUF)
    #[arg(short, long, value_name = "FILE", default_value = "imatrix.gguf")]
    out: PathBuf,
    /// Tokens per window
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    ctx_size: u32,
    /// Most windows; -1 is all
    #[arg(long, value_name = "N", default_value_t = -1)]
    chunks: i64,
    /// Print a table of a matrix (GGUF or the older format) and make none
    #[arg(long, value_name = "FILE")]
    show_statistics: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Collects and writes, or shows.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    if let Some(path) = &args.show_statistics {
        return statistics(&Imatrix::open(path)?, args.json);
    }
    let text = args.prompt.require_text()?;
    let gguf = session::open(&args.model)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let add_bos = tokenizer.add_bos();
    let ids = tokenizer.encode(&text, add_bos, false)?;
    let bos = if add_bos { tokenizer.encode("", true, false)?.first().copied() } else { None };
    let windows = usize::try_from(args.chunks).ok();
    let options = PerplexityOptions { n_ctx: args.ctx_size as usize, bos, windows };
    let (mut engine, mut n_ctx) = (args.engine.clone(), args.ctx_size);
    if pumex_model::plan(&gguf)?.encoder.is_some() {
        // A window is a source, which stands in one step, and the answer to it.
        engine.take_rows(n_ctx);
        n_ctx = n_ctx.saturating_mul(2);
    }
    let mut file = files::create(&args.out)?;
    let mut runner = session::load(&gguf, &engine, Some(n_ctx), stop)?;
    let bar = session::bar("imatrix", "{msg} {wide_bar} {pos}/{len} {eta}");
    let made = conversation::importance(&mut *runner, &ids, &options, stop, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let mut made = made?;
    if stop.load(Ordering::Relaxed) {
        return Ok(CommandEnd::Interrupted);
    }
    made.datasets = vec![args.prompt.source()];
    file.write(&made.to_gguf(args.ctx_size))?;
    file.finish()?;
    if args.json {
        output::json(&json!({"file": args.out, "entries": made.entries.len(), "chunks": made.chunks}))?;
    } else {
        let (entries, chunks) = (made.entries.len(), made.chunks);
        files::report_written(
            &args.out,
            &format!("{}: {entries} matrices from {chunks} windows\n", args.out.display()),
        )?;
    }
    Ok(CommandEnd::Done)
}

/// What a matrix's importance looks like: sum, largest and smallest column, share of columns that carry nine tenths of the
/// sum, and entropy over that of an even spread.
fn describe(name: &str, entry: &ImatrixEntry) -> serde_json::Value {
    let mut mean: Vec<f64> = entry.mean.iter().map(|m| f64::from(*m)).collect();
    mean.sort_by(|a, b| b.total_cmp(a));
    let sum: f64 = mean.iter().sum();
    let mut reached = 0.0;
    let carrying = mean.iter().take_while(|m| {
        let before = reached;
        reached += **m;
        before < 0.9 * sum
    });
    let carrying = carrying.count();
    let part = |m: &f64| if *m > 0.0 && sum > 0.0 { -(m / sum) * (m / sum).log2() } else { 0.0 };
    let entropy: f64 = mean.iter().map(part).sum();
    json!({
        "tensor": name, "columns": mean.len(), "sum": sum, "largest": mean.first(), "smallest": mean.last(),
        "carrying": carrying as f64 / mean.len().max(1) as f64, "evenness": entropy / (mean.len() as f64).log2().max(1e-9),
    })
}

fn statistics(imatrix: &Imatrix, as_json: bool) -> Result<CommandEnd> {
    if imatrix.entries.is_empty() {
        return Err(Error::Request("the importance matrix has no entries".into()));
    }
    let rows: Vec<_> = imatrix.entries.iter().map(|(name, entry)| describe(name, entry)).collect();
    if as_json {
        output::json(&json!({"datasets": imatrix.datasets, "chunks": imatrix.chunks, "tensors": rows}))?;
        return Ok(CommandEnd::Done);
    }
    let keys = ["tensor", "columns", "sum", "largest", "smallest", "carrying", "evenness"];
    let cell = |v: &serde_json::Value| match v {
        serde_json::Value::String(s) => s.clone(),
        serde_json::Value::Number(n) if n.is_f64() => format!("{:.4}", n.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    };
    let mut table = vec![keys.map(String::from).to_vec()];
    table.extend(rows.iter().map(|row| keys.iter().map(|k| cell(&row[*k])).collect()));
    output::text(&output::table(&table, &[false, true, true, true, true, true, true]))?;
    Ok(CommandEnd::Done)
}
