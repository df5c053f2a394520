//! `pumex run`: continues a prompt. stdout gets the prompt (unless switched off) and the new text, nothing else. Where the model
//! has an encoder, the prompt is a source, and stdout gets the answer alone.
//!
//! Without a prompt and with a terminal on stdin, lines are read and continue one sequence. With `--json` one object
//! with the text and the statistics replaces the streamed text.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use pumex::conversation::{generate, Request, Stats, StopReason};
use pumex::gguf::Gguf;
use pumex::sample::{Sampler, SamplerOptions};
use pumex::step::Runner;
use pumex::text::{Stream, Tokenizer};
use pumex::{Error, Result};
use serde_json::{json, Value};

use super::input::{unescape, PromptArgs};
use super::options::{EngineArgs, ModelArgs};
use super::prompt_cache::{CacheArgs, PromptCache};
use super::{output, session, End};

/// Options of `run`; defaults are llama.cpp's.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// Tokens to generate; -1 until the model ends or the context is full
    #[arg(short = 'n', long, value_name = "N", default_value_t = -1, env = "LLAMA_ARG_N_PREDICT")]
    predict: i64,
    /// Positions of the context; 0 is the model's
    #[arg(short, long, value_name = "N", default_value_t = 0, env = "LLAMA_ARG_CTX_SIZE")]
    ctx_size: u32,
    /// Seed of the draw; -1 is random
    #[arg(short, long, value_name = "N", default_value_t = -1)]
    seed: i64,
    /// Temperature; 0 is greedy
    #[arg(long, value_name = "X", default_value_t = 0.8)]
    temp: f32,
    /// Candidates kept; 0 is all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top_k: i32,
    /// Probability kept; 1 is all
    #[arg(long, value_name = "X", default_value_t = 0.95)]
    top_p: f32,
    /// Least share of the best candidate's probability; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.05)]
    min_p: f32,
    /// Penalty of recent tokens; 1 is off
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repeat_penalty: f32,
    /// Recent tokens that penalties see; -1 is all
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last_n: i32,
    /// Penalty of tokens that occurred recently; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    presence_penalty: f32,
    /// Penalty per recent occurrence; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    frequency_penalty: f32,
    /// Stop after this text; may be repeated
    #[arg(short, long, value_name = "TEXT")]
    reverse_prompt: Vec<String>,
    /// Never sample an end token
    #[arg(long)]
    ignore_eos: bool,
    /// Print only new text
    #[arg(long)]
    no_display_prompt: bool,
    /// Leave backslash escapes in the prompt as they are
    #[arg(long, overrides_with = "escape")]
    no_escape: bool,
    #[arg(short, long, hide = true)]
    escape: bool,
    #[arg(long, hide = true)]
    display_prompt: bool,
    #[arg(long, hide = true)]
    color: bool,
    #[arg(long, hide = true)]
    no_conversation: bool,
    #[arg(long, hide = true)]
    single_turn: bool,
    /// Print the engine's counters per generated token
    #[arg(long)]
    counters: bool,
    /// Print one JSON object with text and statistics
    #[arg(long)]
    json: bool,
}

/// What a run works with.
struct Session<'a> {
    args: &'a Args,
    begun: Instant,
    tokenizer: Tokenizer,
    runner: Box<dyn Runner + 'a>,
    sampler: Sampler,
    cache: Option<PromptCache>,
    stop: &'a AtomicBool,
    /// Ids of the sequence that the runner holds, and the one it is still to be fed.
    held: usize,
    pending: Option<u32>,
    /// Ids of the last reply.
    replied: Vec<u32>,
}

/// Continues the prompt, or what is typed.
pub fn main(args: Args, stop: &AtomicBool) -> Result<End> {
    let begun = Instant::now();
    let prompt = args.prompt.read(!args.no_escape)?;
    let gguf = session::open(&args.model)?;
    let n_ctx = (args.ctx_size > 0).then_some(args.ctx_size);
    session::use_threads(&args.engine);
    // The vocabulary is read while the device opens and takes the weights; what is wrong with it is told first, and
    // before the weights are sent if it is known by then.
    let ((tokenizer, first), runner) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&gguf, prompt.as_deref()));
        let joined = |reading: ScopedJoinHandle<'_, _>| reading.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        let device = session::device(&args.engine);
        let load = |device| session::load_on(&gguf, device, &args.engine, n_ctx, stop);
        if reading.is_finished() || device.is_err() {
            Ok::<_, Error>((joined(reading)?, load(device?)?))
        } else {
            let loaded = device.and_then(load);
            Ok((joined(reading)?, loaded?))
        }
    })?;
    let banned = match u32::try_from(tokenizer.n_vocab()) {
        Ok(n) if args.ignore_eos => (0..n).filter(|&id| tokenizer.is_end(id)).collect(),
        _ => Vec::new(),
    };
    let sampler = sampler(&args, banned);
    let cache = args.cache.of(&gguf);
    if cache.is_some() && first.is_none() {
        return Err(Error::Usage("--prompt-cache: expected a prompt (-p TEXT, -f FILE or a pipe), found none".into()));
    }
    let (args, replied) = (&args, Vec::new());
    let mut session = Session { args, begun, tokenizer, runner, sampler, cache, stop, held: 0, pending: None, replied };
    match (prompt, first) {
        (Some(text), Some(ids)) => session.once(&text, ids),
        _ => session.interactive(),
    }
}

/// The vocabulary, and the prompt's ids if there is a prompt.
fn read(gguf: &Gguf, prompt: Option<&str>) -> Result<(Tokenizer, Option<Vec<u32>>)> {
    let begun = Instant::now();
    let tokenizer = Tokenizer::from_gguf(gguf)?;
    tracing::info!("load: tokenizer, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    let first = prompt.map(|text| tokenizer.encode(text, tokenizer.add_bos(), true)).transpose()?;
    if first.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::Request("the prompt is empty: give -p TEXT, -f FILE or a pipe with text".into()));
    }
    Ok((tokenizer, first))
}

fn sampler(args: &Args, banned: Vec<u32>) -> Sampler {
    let sampler = Sampler::new(SamplerOptions {
        temperature: args.temp,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repeat_penalty: args.repeat_penalty,
        repeat_last_n: args.repeat_last_n,
        frequency_penalty: args.frequency_penalty,
        presence_penalty: args.presence_penalty,
        seed: args.seed,
        banned,
    });
    tracing::info!("seed {}", sampler.seed());
    sampler
}

impl Session<'_> {
    /// Whether what is typed are sources, which are answered one by one.
    fn answers(&self) -> bool {
        self.runner.answers_from().is_some()
    }

    fn once(&mut self, prompt: &str, mut ids: Vec<u32>) -> Result<End> {
        if !self.args.json && !self.args.no_display_prompt && !self.answers() {
            output::text(prompt)?;
        }
        if self.answers() {
            ids.extend(self.tokenizer.closing());
        }
        let (text, stats) = match &self.cache {
            Some(_) => self.cached_reply(ids)?,
            None => self.reply(&ids)?,
        };
        let interrupted = stats.stop == StopReason::Interrupted && self.stop.load(Ordering::Relaxed);
        if self.args.json {
            output::json(&self.report(&text, &stats))?;
        } else {
            output::text("\n")?;
            self.summary(&stats);
        }
        Ok(if interrupted { End::Interrupted } else { End::Done })
    }

    /// Generates after ids whose beginning may be in the prompt cache.
    fn cached_reply(&mut self, mut ids: Vec<u32>) -> Result<(String, Stats)> {
        let Some(cache) = self.cache.take() else { return self.reply(&ids) };
        let fed = cache.feed(&mut *self.runner, &ids, self.stop)?;
        self.held = fed.held;
        let (text, mut stats) = self.reply(&ids[fed.held..])?;
        stats.prompt_tokens += fed.now;
        stats.prompt_ms += fed.ms;
        ids.extend(&self.replied);
        cache.keep_all(&mut *self.runner, &ids, stats.held)?;
        Ok((text, stats))
    }

    /// Reads lines and lets the model continue the one growing sequence, or answer each of them.
    fn interactive(&mut self) -> Result<End> {
        output::say(format_args!("type text to continue; Ctrl-C stops a reply, Ctrl-D ends\n"));
        let mut line = String::new();
        loop {
            output::say(format_args!("> "));
            line.clear();
            let read = std::io::stdin().lock().read_line(&mut line).map_err(|e| Error::io("stdin".as_ref(), e))?;
            if read == 0 {
                return Ok(End::Done);
            }
            let text = line.trim_end_matches(['\n', '\r']);
            let text = if self.args.no_escape { text.to_string() } else { unescape(text) };
            let bos = self.held == 0 && self.tokenizer.add_bos();
            let mut ids: Vec<u32> = self.pending.into_iter().collect();
            ids.extend(self.tokenizer.encode(&text, bos, true)?);
            if ids.is_empty() {
                continue;
            }
            if self.answers() {
                ids.extend(self.tokenizer.closing());
            }
            let (_, stats) = self.reply(&ids)?;
            self.stop.store(false, Ordering::Relaxed);
            output::text("\n")?;
            self.summary(&stats);
            (self.held, self.pending) = (stats.held, stats.pending);
            if self.answers() {
                self.runner.forget(0, 0);
                (self.held, self.pending) = (0, None);
            }
        }
    }

    /// Generates after `ids`; streams the text unless `--json`.
    fn reply(&mut self, ids: &[u32]) -> Result<(String, Stats)> {
        let stream = !self.args.json;
        let (tokenizer, stop, reverse) = (&self.tokenizer, self.stop, &self.args.reverse_prompt);
        let mut pieces = Stream::new(tokenizer);
        let mut text = String::new();
        let mut failed = None;
        // A reverse prompt stops the loop through Ctrl-C's flag, which is lowered again below.
        let mut halted = false;
        let (begun, mut first) = (self.begun, self.held == 0);
        let mut replied = Vec::new();
        let mut on_token = |id: u32| {
            replied.push(id);
            if std::mem::take(&mut first) {
                tracing::info!("load: first token, {:.0} ms after the start", begun.elapsed().as_secs_f64() * 1e3);
            }
            let piece = pieces.push(id);
            if stream && failed.is_none() {
                failed = output::text(&piece).err();
            }
            text.push_str(&piece);
            let reversed = !piece.is_empty() && reverse.iter().any(|r| !r.is_empty() && text.ends_with(r.as_str()));
            if reversed || failed.is_some() {
                halted = true;
                stop.store(true, Ordering::Relaxed);
            }
        };
        let request = Request {
            prompt: ids,
            start: self.held,
            n_predict: self.args.predict,
            is_end: &|id| tokenizer.is_end(id),
            stop,
            counters: self.args.counters,
        };
        let stats = generate(&mut *self.runner, &request, &mut self.sampler, &mut on_token)?;
        if halted {
            stop.store(false, Ordering::Relaxed);
        }
        self.replied = replied;
        let rest = pieces.flush();
        text.push_str(&rest);
        match failed {
            Some(error) => return Err(error),
            None if stream => output::text(&rest)?,
            None => {}
        }
        Ok((text, stats))
    }

    fn summary(&self, stats: &Stats) {
        if self.args.counters {
            output::say(format_args!("{}", counters_table(stats)));
        }
        output::say(format_args!(
            "prompt: {} tokens, {:.1} ms, {:.2} t/s; generated: {} tokens, {:.1} ms, {:.2} t/s\n",
            stats.prompt_tokens,
            stats.prompt_ms,
            rate(stats.prompt_tokens, stats.prompt_ms),
            stats.generated_tokens,
            stats.generate_ms,
            rate(stats.generated_tokens.saturating_sub(1), stats.generate_ms),
        ));
    }

    fn report(&self, text: &str, stats: &Stats) -> Value {
        let reversed = stats.stop == StopReason::Interrupted && !self.stop.load(Ordering::Relaxed);
        let stop = if reversed { json!("reverse_prompt") } else { json!(stats.stop) };
        let mut value = json!({
            "text": text,
            "prompt_tokens": stats.prompt_tokens,
            "generated_tokens": stats.generated_tokens,
            "prompt_ms": stats.prompt_ms,
            "prompt_per_second": rate(stats.prompt_tokens, stats.prompt_ms),
            "generate_ms": stats.generate_ms,
            "generate_per_second": rate(stats.generated_tokens.saturating_sub(1), stats.generate_ms),
            "stop": stop,
            "seed": self.sampler.seed(),
            "device": self.runner.device(),
        });
        if self.args.counters {
            value["counters"] = json!(stats.per_token);
        }
        value
    }
}

fn rate(tokens: usize, ms: f64) -> f64 {
    if ms > 0.0 {
        tokens as f64 / ms * 1e3
    } else {
        0.0
    }
}

/// One line per generated token, one column per counter.
fn counters_table(stats: &Stats) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, counters) in stats.per_token.iter().enumerate() {
        let Value::Object(fields) = json!(counters) else {
            continue;
        };
        if rows.is_empty() {
            rows.push(std::iter::once("token".to_string()).chain(fields.keys().cloned()).collect());
        }
        let cell = |value: &Value| match value.as_f64() {
            Some(x) if value.is_f64() => format!("{x:.1}"),
            _ => value.to_string(),
        };
        rows.push(std::iter::once(index.to_string()).chain(fields.values().map(cell)).collect());
    }
    output::table(&rows, &[true; 32])
}
