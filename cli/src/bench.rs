//! `pumex bench`: speed of prompts and of generation, with llama-bench's tests, fields and table.
//!
//! Per test: a quarter of a second of warm-up, at least one run (none with `--no-warmup`), then `-r` timed runs from an emptied
//! cache. `-d` fills the cache before the clock starts. Of a model with an encoder, prompts are sources, and so is what fills
//! the cache. Generation is the greedy loop that runs one step ahead; nothing is tokenized or sampled on the host.

mod compare;
mod pictures;
pub use pictures::PictureArgs;
mod report;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use pumex_engine as engine;
use pumex_engine::conversation::{feed_source, rows, run_chunks};
use pumex_gguf::{Error, Result};
use pumex_step::sample::rng::Rng;
use pumex_step::{Row, RowOutput, Runner, Token};
use pumex_text::Tokenizer;

use super::adapters::AdapterArgs;
use super::options::{EngineArgs, SourceArgs};
use super::{output, session, CommandEnd};

/// Least time of the runs before those that count.
const WARM_UP: Duration = Duration::from_millis(250);

/// Options of `bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: SourceArgs,
    #[command(flatten)]
    adapters: AdapterArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Prompt lengths; 0 skips the test
    #[arg(short = 'p', long, value_name = "N,N,...", value_delimiter = ',', default_value = "512")]
    n_prompt: Vec<u32>,
    /// Tokens to generate; 0 skips the test
    #[arg(short = 'n', long, value_name = "N,N,...", value_delimiter = ',', default_value = "128")]
    n_gen: Vec<u32>,
    /// Tokens in the cache before each test
    #[arg(short = 'd', long, value_name = "N,N,...", value_delimiter = ',', default_value = "0")]
    n_depth: Vec<u32>,
    /// Timed runs per test
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// As --deterministic of `serve`: prompts in pieces of 128 rows, and no megakernel
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    pictures: PictureArgs,
    /// Measure models of known shapes here, beside speeds that were published of other machines; --synthetic takes one of them
    #[arg(long, conflicts_with_all = ["model", "hf_repo", "model_url", "n_prompt", "n_gen", "n_depth", "weight_type"])]
    compare: bool,
    /// Form of the results
    #[arg(short, long, value_name = "FORM", default_value = "md")]
    output: ResultFormat,
}

/// Form of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ResultFormat {
    /// Table
    Md,
    /// One array
    Json,
    /// One object per line
    Jsonl,
    /// Lines under a header
    Csv,
}

/// One kind of test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    n_prompt: u32,
    n_gen: u32,
    n_depth: u32,
}

/// One test's samples.
struct BenchResult {
    test: Test,
    /// For a picture's test: which part of the work was timed, and its size.
    picture: Option<String>,
    time: String,
    samples_ns: Vec<u64>,
}

/// Runs the tests.
pub fn main(args: &mut Args, stop: &AtomicBool) -> Result<CommandEnd> {
    if args.deterministic {
        args.engine.make_steady()?;
    }
    if args.compare {
        return compare::main(args, stop);
    }
    let tests = tests(args);
    let most = |f: fn(&Test) -> u32| tests.iter().map(f).max().unwrap_or(0);
    let n_ctx = most(|t| t.n_depth.saturating_add(t.n_prompt.max(t.n_gen)));
    if n_ctx == 0 && !args.pictures.some() {
        return Err(Error::Usage("nothing to measure: -p and -n are both 0".into()));
    }
    let gguf = args.adapters.attach(session::open_source(&args.model)?)?;
    let info = engine::model_info(&gguf)?;
    let bos =
        Tokenizer::from_gguf(&gguf).and_then(|t| if t.add_bos() { t.encode("", true, false) } else { Ok(vec![]) });
    let bos = bos.ok().and_then(|ids| ids.first().copied()).unwrap_or(0);
    let mut engine = args.engine.clone();
    let answers = pumex_model::plan(&gguf)?.encoder.is_some();
    let (n_ctx, tests) = if answers { of_sources(tests, &mut engine)? } else { (n_ctx, tests) };
    let pictures = args.pictures.open(&gguf, args.model.model.access(), &mut engine)?;
    let n_ctx = pictures.as_ref().map_or(n_ctx, |p| n_ctx.max(p.rows()));
    let mut runner = session::load(&gguf, &engine, Some(n_ctx), stop)?;
    let about = report::About::new(args, &gguf, &info, &*runner);
    let bar = session::bar("bench", "{msg} {wide_bar} {pos}/{len}");
    bar.set_length(u64::from(args.repetitions + 1) * tests.len() as u64);
    let mut printer = report::Printer::new(args.output, about);
    let (mut interrupted, mut filled) = (false, 0);
    for test in tests {
        let mut samples_ns = Vec::new();
        let time = report::now();
        let warm = !args.engine.no_warmup;
        let mut last = if warm { warm_up(&mut *runner, test, (bos, &mut filled), stop)? } else { Some(0) };
        bar.inc(1);
        for repetition in 1..=args.repetitions {
            if last.is_none() {
                break;
            }
            let revived = runner.was_revived();
            last = once(&mut *runner, test, (bos, &mut filled), repetition, stop)?;
            if runner.was_revived() != revived {
                last = once(&mut *runner, test, (bos, &mut filled), repetition, stop)?;
            }
            samples_ns.extend(last);
            bar.inc(1);
        }
        interrupted = last.is_none();
        if !samples_ns.is_empty() {
            let text = printer.result(&BenchResult { test, picture: None, time, samples_ns });
            bar.suspend(|| output::text(&text))?;
        }
        if interrupted {
            break;
        }
    }
    if let Some(pictures) = pictures.filter(|_| !interrupted) {
        for measured in pictures.measure(&mut *runner, args.repetitions, stop)? {
            bar.suspend(|| output::text(&printer.result(&measured)))?;
        }
        interrupted = stop.load(Ordering::Relaxed);
    }
    bar.finish_and_clear();
    output::text(&printer.end())?;
    Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
}

/// Prompt tests, then generation tests, at each depth.
fn tests(args: &Args) -> Vec<Test> {
    let mut out = Vec::new();
    for &n_depth in &args.n_depth {
        out.extend(args.n_prompt.iter().filter(|&&n| n > 0).map(|&n_prompt| Test { n_prompt, n_gen: 0, n_depth }));
        out.extend(args.n_gen.iter().filter(|&&n| n > 0).map(|&n_gen| Test { n_prompt: 0, n_gen, n_depth }));
    }
    out
}

/// Tests of a model that answers sources, each of which stands in one step, and the positions they take: an answer has a source of
/// one token at least, and a source nothing before it.
fn of_sources(mut tests: Vec<Test>, engine: &mut EngineArgs) -> Result<(u32, Vec<Test>)> {
    if tests.iter().any(|t| t.n_prompt > 0 && t.n_depth > 0) {
        return Err(Error::Usage(
            "-d: expected -p 0 beside it, as nothing stands before the source of an answer".into(),
        ));
    }
    for test in &mut tests {
        test.n_depth = if test.n_gen > 0 { test.n_depth.max(1) } else { 0 };
        engine.take_rows(test.n_depth.max(test.n_prompt));
    }
    let n_ctx = tests.iter().map(|t| t.n_depth.saturating_add(t.n_prompt.max(t.n_gen))).max().unwrap_or(1);
    Ok((n_ctx, tests))
}

/// Runs of a test that do not count, as long as clocks take to rise: while pipelines are built, the device rests. None when
/// stopped.
fn warm_up(
    runner: &mut dyn Runner,
    test: Test,
    (bos, filled): (u32, &mut u32),
    stop: &AtomicBool,
) -> Result<Option<u64>> {
    let begun = Instant::now();
    loop {
        let last = once(runner, test, (bos, filled), 0, stop)?;
        if last.is_none() || begun.elapsed() >= WARM_UP {
            return Ok(last);
        }
    }
}

/// One run of a test in nanoseconds; repetition 0 warms up. None when stopped. The test's depth is only filled where not so many
/// positions are `filled` by the run before.
fn once(
    runner: &mut dyn Runner,
    test: Test,
    (bos, filled): (u32, &mut u32),
    repetition: u32,
    stop: &AtomicBool,
) -> Result<Option<u64>> {
    let n_vocab = runner.n_vocab() as u32;
    let mut rng = Rng::new(u64::from(repetition));
    let mut text =
        |n: u32| -> Vec<u32> { (0..n).map(|i| if i == 0 { bos } else { rng.next_below(n_vocab) }).collect() };
    let depth = test.n_depth as usize;
    if *filled >= test.n_depth {
        runner.forget(0, test.n_depth);
    } else {
        runner.forget(0, 0);
        let ids = text(test.n_depth);
        let fill = rows(&ids, 0, |_| RowOutput::None);
        if runner.answers_from().is_some() {
            feed_source(runner, &ids)?;
        } else if !run_chunks(runner, &fill, stop, &mut |_| Ok(()))? {
            return Ok(None);
        }
    }
    *filled = test.n_depth;
    if test.n_gen > 0 {
        // A few tokens warm generation up.
        let n = if repetition == 0 { test.n_gen.min(4) } else { test.n_gen };
        return decode(runner, test.n_depth, n, bos, stop);
    }
    let ids = text(test.n_prompt);
    if runner.answers_from().is_some() {
        runner.forget(0, 0);
        let begun = Instant::now();
        feed_source(runner, &ids)?;
        return Ok((!stop.load(Ordering::Relaxed)).then_some(begun.elapsed().as_nanos() as u64));
    }
    let rows = rows(&ids, depth, |i| if i + 1 == ids.len() { RowOutput::Id } else { RowOutput::None });
    let begun = Instant::now();
    let whole = run_chunks(runner, &rows, stop, &mut |_| Ok(()))?;
    let ns = begun.elapsed().as_nanos() as u64;
    Ok(whole.then_some(ns))
}

/// Generates `n` tokens from position `start` on with two steps in flight.
fn decode(runner: &mut dyn Runner, start: u32, n: u32, first: u32, stop: &AtomicBool) -> Result<Option<u64>> {
    let begun = Instant::now();
    let mut ahead = None;
    for i in 0..n {
        let token = if i == 0 { Token::Id(first) } else { Token::Sampled };
        let ticket = runner.start(&[Row { seq: 0, pos: start + i, token, output: RowOutput::Id, medium: None }])?;
        if let Some(earlier) = ahead.replace(ticket) {
            runner.finish(earlier)?;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(last) = ahead {
        runner.finish(last)?;
    }
    let ns = begun.elapsed().as_nanos() as u64;
    Ok((!stop.load(Ordering::Relaxed)).then_some(ns))
}
