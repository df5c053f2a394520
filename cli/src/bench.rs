//! `pumex bench`: speed of prompts and of generation, with llama-bench's tests, fields and table.
//!
//! Per test: a quarter of a second of warm-up, at least one run (none with `--no-warmup`), then `-r` timed runs from an emptied
//! cache. `-d` fills the cache before the clock starts. Of a model with an encoder, prompts are sources, and so is what fills
//! the cache. Generation is the greedy loop that runs one step ahead; nothing is tokenized or sampled on the host.

mod compare;
pub mod lists;
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
    /// Prompt lengths: numbers, or ranges as 128-512+128 and 1-64*2; 0 skips the test
    #[arg(short = 'p', long, value_name = "N,N,...", value_delimiter = ',', default_value = "512", value_parser = range)]
    n_prompt: Vec<Range>,
    /// Tokens to generate, likewise; 0 skips the test
    #[arg(short = 'n', long, value_name = "N,N,...", value_delimiter = ',', default_value = "128", value_parser = range)]
    n_gen: Vec<Range>,
    /// A prompt and tokens behind it, timed as one (-pg); may be repeated
    #[arg(long, value_name = "N,N", value_parser = pair)]
    n_prompt_gen: Vec<(u32, u32)>,
    /// Tokens in the cache before each test, likewise
    #[arg(short = 'd', long, value_name = "N,N,...", value_delimiter = ',', default_value = "0", value_parser = range)]
    n_depth: Vec<Range>,
    /// Timed runs per test
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// As --deterministic of `serve`: prompts in pieces of 128 rows, and no megakernel
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    pictures: PictureArgs,
    /// Measure models of known shapes here, beside speeds that were published of other machines; --synthetic takes one of them
    #[arg(long, conflicts_with_all = ["model", "hf_repo", "model_url", "n_prompt", "n_gen", "n_prompt_gen", "n_depth", "weight_type"])]
    compare: bool,
    /// Form of the results
    #[arg(short, long, value_name = "FORM", default_value = "md")]
    output: ResultFormat,
    /// The same with the next values of flags that were given lists
    #[arg(skip)]
    pub further: Vec<Args>,
    /// Which columns of the table these lists are
    #[arg(skip)]
    pub listed: Vec<&'static str>,
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

impl Test {
    /// Positions that it takes.
    fn positions(&self) -> u32 {
        self.n_depth.saturating_add(self.n_prompt).saturating_add(self.n_gen)
    }
}

/// The numbers of a value: one, or those of a range.
#[derive(Clone, Debug)]
struct Range(Vec<u32>);

/// Most numbers of a range: more are a slip.
const MOST_OF_A_RANGE: usize = 1000;

/// `N`, `FIRST-LAST`, `FIRST-LAST+STEP` or `FIRST-LAST*FACTOR`, as llama-bench has them.
fn range(text: &str) -> std::result::Result<Range, String> {
    let wrong = || "expected a number, or a range as 128-512+128 or 1-64*2".to_string();
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let Some((first, rest)) = text.split_once('-') else { return Ok(Range(vec![number(text)?])) };
    let (last, times, step) = match rest.split_once(['+', '*']) {
        Some((last, step)) => (last, rest.contains('*'), number(step)?),
        None => (rest, false, 1),
    };
    let (first, last) = (number(first)?, number(last)?);
    let grows = if times { step > 1 && first > 0 } else { step > 0 };
    if !grows || first > last {
        return Err(wrong());
    }
    let next = |n: &u32| if times { n.checked_mul(step) } else { n.checked_add(step) };
    let all: Vec<u32> =
        std::iter::successors(Some(first), next).take_while(|n| *n <= last).take(MOST_OF_A_RANGE + 1).collect();
    match all.len() <= MOST_OF_A_RANGE {
        true => Ok(Range(all)),
        false => Err(format!("expected {MOST_OF_A_RANGE} numbers at most")),
    }
}

/// `PROMPT,GENERATED`.
fn pair(text: &str) -> std::result::Result<(u32, u32), String> {
    let pair = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.filter(|(prompt, generated)| *prompt > 0 && *generated > 0)
        .ok_or_else(|| "expected two numbers above 0, as 512,128".to_string())
}

/// One test's samples.
struct BenchResult {
    test: Test,
    /// For a picture's test: which part of the work was timed, and its size.
    picture: Option<String>,
    time: String,
    samples_ns: Vec<u64>,
}

/// Runs the tests, as often as lists of other flags want it.
pub fn main(args: &mut Args, stop: &AtomicBool) -> Result<CommandEnd> {
    if args.compare {
        return compare::main(args, stop);
    }
    let further = std::mem::take(&mut args.further);
    let mut printer = report::Printer::new(args.output, args.listed.clone());
    let mut end = measure(args, &mut printer, stop)?;
    for mut next in further {
        if end == CommandEnd::Done {
            end = measure(&mut next, &mut printer, stop)?;
        }
    }
    output::text(&printer.end())?;
    Ok(end)
}

/// Runs the tests of one model with one set of values.
fn measure(args: &mut Args, printer: &mut report::Printer, stop: &AtomicBool) -> Result<CommandEnd> {
    if args.deterministic {
        args.engine.make_steady()?;
    }
    let tests = tests(args);
    let n_ctx = tests.iter().map(Test::positions).max().unwrap_or(0);
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
    printer.take(about);
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
    Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
}

/// Prompt tests, then generation tests, at each depth.
fn tests(args: &Args) -> Vec<Test> {
    let mut out = Vec::new();
    let all = |ranges: &[Range]| ranges.iter().flat_map(|range| range.0.clone()).collect::<Vec<u32>>();
    for n_depth in all(&args.n_depth) {
        let prompts = all(&args.n_prompt).into_iter().map(|n_prompt| (n_prompt, 0));
        let generated = all(&args.n_gen).into_iter().map(|n_gen| (0, n_gen));
        let sizes = prompts.chain(generated).chain(args.n_prompt_gen.iter().copied()).filter(|size| *size != (0, 0));
        out.extend(sizes.map(|(n_prompt, n_gen)| Test { n_prompt, n_gen, n_depth }));
    }
    out
}

/// Tests of a model that answers sources, each of which stands in one step, and the positions they take: an answer has a source of
/// one token at least, and a source nothing before it.
fn of_sources(mut tests: Vec<Test>, engine: &mut EngineArgs) -> Result<(u32, Vec<Test>)> {
    if tests.iter().any(|t| t.n_prompt > 0 && t.n_gen > 0) {
        return Err(Error::Usage("-pg: expected -p and -n, as a source and its answer are timed apart".into()));
    }
    if tests.iter().any(|t| t.n_prompt > 0 && t.n_depth > 0) {
        return Err(Error::Usage(
            "-d: expected -p 0 beside it, as nothing stands before the source of an answer".into(),
        ));
    }
    for test in &mut tests {
        test.n_depth = if test.n_gen > 0 { test.n_depth.max(1) } else { 0 };
        engine.take_rows(test.n_depth.max(test.n_prompt));
    }
    let n_ctx = tests.iter().map(Test::positions).max().unwrap_or(1);
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
    // A few tokens warm generation up.
    let n_gen = if repetition == 0 { test.n_gen.min(4) } else { test.n_gen };
    if test.n_prompt == 0 {
        return decode(runner, test.n_depth, n_gen, bos, stop);
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
    if !whole || n_gen == 0 {
        return Ok(whole.then_some(ns));
    }
    let generated = decode(runner, test.n_depth + test.n_prompt, n_gen, bos, stop)?;
    Ok(generated.map(|more| ns + more))
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
