//! `pumex run`: continues a prompt. stdout gets the prompt (unless switched off) and the new text, nothing else. Where the model
//! has an encoder, the prompt is a source, and stdout gets the answer alone.
//!
//! Without a prompt and with a terminal on stdin, lines are read and continue one sequence. With `--json` one object
//! with the text and the statistics replaces the streamed text. [`chat`] takes over where it is a conversation.

use std::io::{BufRead, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use pumex_dialogue::grammar::{GrammarMask, GrammarSource, Matcher};
use pumex_dialogue::{grammar, Speaker};
use pumex_engine::conversation::{generate_on, Constraint, Feed, Request, Stats, StopReason};
use pumex_gguf::{Error, Gguf, Result};
use pumex_step::sample::{Logprobs, Sampler};
use pumex_step::{Media, Runner};
use pumex_text::{Stops, Stream, Tokenizer};
use serde_json::{json, Value};

use super::chat::waiting::Waiting;
use super::diffusion::{self, DiffusionArgs};
use super::media::ModelProjector;
use super::prompt_cache::{self, CacheArgs, CachedPrompt, PromptCache};
use super::prompt_source::unescape;
use super::prompted_model::PromptedModelArgs;
use super::sampling::SamplingArgs;
use super::{chat, output, session, signals, CommandEnd};

/// Options of `run`; defaults are llama.cpp's.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: PromptedModelArgs,
    #[command(flatten)]
    grammar: super::grammar::Args,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    diffusion: DiffusionArgs,
    /// Tokens to generate; -1 until the model ends or the context is full
    #[arg(short = 'n', long, value_name = "N", default_value_t = -1, env = "LLAMA_ARG_N_PREDICT")]
    predict: i64,
    /// Positions of the context; 0 is the model's
    #[arg(short, long, value_name = "N", default_value_t = 0, env = "LLAMA_ARG_CTX_SIZE")]
    ctx_size: u32,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Stop after this text, which is printed; may be repeated
    #[arg(short, long, value_name = "TEXT")]
    reverse_prompt: Vec<String>,
    /// Print only new text
    #[arg(long, overrides_with = "display_prompt")]
    no_display_prompt: bool,
    /// Leave backslash escapes in the prompt as they are
    #[arg(long, overrides_with = "escape")]
    no_escape: bool,
    #[arg(short, long, hide = true, overrides_with = "no_escape")]
    escape: bool,
    #[arg(long, hide = true, overrides_with = "no_display_prompt")]
    display_prompt: bool,
    #[command(flatten)]
    chat: chat::ChatArgs,
    /// The reply of a prompt is that of `serve --deterministic`, to the bit of its logits: steps follow from its ids alone
    #[arg(long, conflicts_with = "prompt_cache")]
    deterministic: bool,
    /// Print the engine's counters per generated token
    #[arg(long)]
    counters: bool,
    /// Print one JSON object with text and statistics
    #[arg(long)]
    json: bool,
}

/// Refuses what goes with no media.
fn check_media(args: &Args, has_prompt: bool, has_cache: bool) -> Result<()> {
    let other = [(args.deterministic, "--deterministic"), (has_cache, "--prompt-cache")];
    if let Some((_, flag)) = other.iter().find(|(given, _)| *given) {
        return Err(Error::Usage(format!(
            "{flag}: expected a prompt of text alone, found --image or --audio beside it"
        )));
    }
    match has_prompt {
        true => Ok(()),
        false => Err(Error::Usage("--image, --audio: expected a prompt beside them (-p TEXT), found none".into())),
    }
}

/// Runs a model that writes by diffusion.
fn diffuse(args: &Args, gguf: &Gguf, within: bool, stop: &AtomicBool) -> Result<CommandEnd> {
    let other = [
        (within, "--grammar, --json-schema"),
        (args.cache.of(gguf).is_some(), "--prompt-cache"),
        (!args.input.media.is_empty(), "--image, --audio"),
        (args.chat.tools.is_some(), "--tools"),
        (!args.reverse_prompt.is_empty(), "--reverse-prompt"),
        (args.deterministic, "--deterministic"),
        (args.counters, "--counters"),
    ];
    if let Some((_, flag)) = other.iter().find(|(given, _)| *given) {
        return Err(Error::Usage(format!(
            "{flag}: expected a model that writes one token after another, found one of diffusion"
        )));
    }
    let tokenizer = Tokenizer::from_gguf(gguf)?;
    let given = diffusion::DiffusionSetup {
        gguf,
        engine: args.input.engine.clone(),
        prompt: match chat::opening(&args.chat, &args.input.prompt, (!args.no_escape, args.json), gguf)? {
            Some(opening) => opening.only_prompt(&tokenizer)?,
            None => match args.input.prompt.read(!args.no_escape)? {
                Some(text) => tokenizer.encode(&text, tokenizer.add_bos(), true)?,
                None => return Err(Error::Usage("no text given: use -p TEXT, -f FILE or a pipe".into())),
            },
        },
        predict: args.predict,
        n_ctx: (args.ctx_size > 0).then_some(args.ctx_size),
        options: args.sampling.of_diffusion(gguf, &tokenizer)?,
        json: args.json,
        tokenizer: &tokenizer,
        stop,
    };
    diffusion::main(&args.diffusion, given)
}

/// What a run works with.
struct Session<'a> {
    args: &'a Args,
    begun: Instant,
    tokenizer: Tokenizer,
    runner: Box<dyn Runner + 'a>,
    sampler: Sampler,
    /// A matcher for the reply that has not begun, and the time spent in the matcher of the last reply.
    matcher: Option<Matcher>,
    grammar_ms: f64,
    cache: Option<PromptCache>,
    stop: &'a AtomicBool,
    /// Ids of the text so far, and how many of them the runner holds.
    ids: Vec<u32>,
    held: usize,
    /// Media that ids stand for.
    media: Media,
    /// A line that is shown until the reply begins, and what is written first then.
    waiting: Option<(Waiting, String)>,
}

/// Continues the prompt, or what is typed.
pub fn main(mut args: Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let begun = Instant::now();
    let source = args.grammar.source()?;
    if source.is_some() && args.chat.tools.is_some() && args.chat.tool_choice != Some(grammar::ToolChoice::None) {
        let what = "--tools: expected no grammar or JSON schema beside it, as answers within one hold no calls; \
                    --tool-choice none leaves the functions out";
        return Err(Error::Usage(what.into()));
    }
    let gguf = args.input.open()?;
    if args.diffusion.serves(&gguf)? {
        return diffuse(&args, &gguf, source.is_some(), stop);
    }
    let opening = chat::opening(&args.chat, &args.input.prompt, (!args.no_escape, args.json), &gguf)?;
    let prompt = if opening.is_some() { None } else { args.input.prompt.read(!args.no_escape)? };
    let cache = args.cache.of(&gguf);
    if cache.is_some() && (opening.is_some() || prompt.is_none()) {
        let what =
            "--prompt-cache: expected a prompt to continue (-p TEXT, -f FILE or a pipe; -no-cnv), found a conversation";
        return Err(Error::Usage(what.into()));
    }
    if args.sampling.logprobs.is_some() && opening.is_some() {
        let what =
            "--logprobs: expected a prompt to continue (-no-cnv), found a conversation, which has no place for them";
        return Err(Error::Usage(what.into()));
    }
    if opening.is_some() && !pumex_model::plan(&gguf)?.keeps_all() {
        args.input.engine.checkpoints = args.chat.ctx_checkpoints;
    }
    let media = args.input.media.open_projector(&args.input.model, &gguf, (&args.input.engine, opening.is_some()))?;
    if let Some(media) = &media {
        args.input.engine.take_rows(media.widest()?);
        args.input.engine.reserved_bytes = media.reserved_bytes();
    }
    if !args.input.media.is_empty() {
        check_media(&args, prompt.is_some() || opening.is_some(), cache.is_some())?;
    }
    let n_ctx = (args.ctx_size > 0).then_some(args.ctx_size);
    if let (Some(n), Ok(info)) = (n_ctx, pumex_engine::model_info(&gguf)) {
        if n > info.n_ctx_train && info.n_ctx_train > 0 {
            output::say(format_args!(
                "warning: --ctx-size {n}: the model was trained for {} positions, beyond which its answers get worse\n",
                info.n_ctx_train
            ));
        }
    }
    if args.deterministic {
        if opening.is_some() || prompt.is_none() {
            let what = "--deterministic: expected a prompt to continue (-p TEXT, -f FILE or a pipe; -no-cnv), found a conversation, \
                        whose steps follow from what was said before";
            return Err(Error::Usage(what.into()));
        }
        args.input.engine.make_steady()?;
    }
    session::use_threads(&args.input.engine);
    // The vocabulary is read while the device opens and takes the weights; what is wrong with it is told first, and
    // before the weights are sent if it is known by then.
    let ((tokenizer, beginning), runner) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&gguf, &args, (prompt.as_deref(), opening, media.as_ref()), source.as_ref()));
        let joined = |reading: ScopedJoinHandle<'_, _>| reading.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        let device = session::device(&args.input.engine);
        let load = |device| session::load_on(&gguf, device, &args.input.engine, n_ctx, stop);
        if reading.is_finished() || device.is_err() {
            Ok::<_, Error>((joined(reading)?, load(device?)?))
        } else {
            let loaded = device.and_then(load);
            Ok((joined(reading)?, loaded?))
        }
    })?;
    let sampler = args.sampling.sampler(&gguf, &tokenizer, !args.no_escape)?;
    let (first, matcher) = match beginning {
        Beginning::Text(first, matcher) => (first, matcher.map(|matcher| *matcher)),
        Beginning::Talk(opening) => {
            let given = chat::ChatSetup {
                args: &args.chat,
                model: gguf
                    .path()
                    .file_name()
                    .map_or_else(|| "demo".into(), |name| name.to_string_lossy().into_owned()),
                predict: args.predict,
                stops: &args.reverse_prompt,
                ignore_ends: args.sampling.ignore_eos,
                breakers: args.sampling.breakers(!args.no_escape),
                source,
                json: args.json,
                media: media.map(|media| media.talk(&args.input.media)).transpose()?,
                stop,
            };
            let speaker =
                Speaker::new(runner, tokenizer, sampler).with_checkpoints(1..1 + args.input.engine.checkpoints);
            return chat::converse(*opening, given, speaker);
        }
    };
    let mut session = Session {
        args: &args,
        begun,
        tokenizer,
        runner,
        sampler,
        cache,
        matcher,
        grammar_ms: 0.0,
        stop,
        ids: Vec::new(),
        held: 0,
        media: Media::new(),
        waiting: None,
    };
    match (prompt, first) {
        (Some(text), Some(feed)) => {
            session.media = feed.media;
            session.once(&text, feed.ids)
        }
        _ => session.interactive(),
    }
}

/// What a run begins with.
enum Beginning {
    /// The prompt, if there is one, and what replies may be.
    Text(Option<Feed>, Option<Box<Matcher>>),
    /// A conversation.
    Talk(Box<chat::OpenedChat>),
}

/// The vocabulary, and what to begin with.
fn read(
    gguf: &Gguf,
    args: &Args,
    (prompt, opening, media): (Option<&str>, Option<chat::Opening>, Option<&ModelProjector>),
    source: Option<&GrammarSource>,
) -> Result<(Tokenizer, Beginning)> {
    let begun = Instant::now();
    let tokenizer = Tokenizer::from_gguf(gguf)?;
    tracing::info!("load: tokenizer, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    if let Some(opening) = opening {
        let begun = chat::OpenedChat::new(opening, &args.chat, &tokenizer, source)?;
        return Ok((tokenizer, Beginning::Talk(Box::new(begun))));
    }
    let feed = |text: &str| match media.filter(|_| !args.input.media.is_empty()) {
        Some(media) => media.feed(text, &args.input.media.files()?, &tokenizer),
        None => Ok(Feed { ids: tokenizer.encode(text, tokenizer.add_bos(), true)?, ..Feed::default() }),
    };
    let first = prompt.map(feed).transpose()?;
    if first.as_ref().is_some_and(|feed| feed.ids.is_empty()) {
        return Err(Error::Request("the prompt is empty: give -p TEXT, -f FILE or a pipe with text".into()));
    }
    let compiled = |source| {
        let begun = Instant::now();
        let matcher = grammar::matcher(&grammar::vocabulary(&tokenizer, &[])?, source)?;
        tracing::info!("load: grammar, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
        Ok::<_, Error>(matcher)
    };
    let matcher = source.map(compiled).transpose()?;
    Ok((tokenizer, Beginning::Text(first, matcher.map(Box::new))))
}

impl Session<'_> {
    /// Whether what is typed are sources, which are answered one by one.
    fn answers(&self) -> bool {
        self.runner.answers_from().is_some()
    }

    fn once(&mut self, prompt: &str, mut ids: Vec<u32>) -> Result<CommandEnd> {
        let shown = if self.args.json || self.args.no_display_prompt || self.answers() { "" } else { prompt };
        let [out, err] = [std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
        if !(out && err) {
            output::text(shown)?;
        }
        // On one terminal the line would stand over the prompt's last one.
        self.waiting = err.then(|| (Waiting::new(), if out { shown.to_string() } else { String::new() }));
        if self.answers() {
            ids.extend(self.tokenizer.closing());
        }
        let (text, stats) = match &self.cache {
            Some(_) => self.generate_from_cache(ids)?,
            None if self.args.deterministic && !self.answers() => {
                let fed = prompt_cache::feed(&mut *self.runner, &ids, ids.len() - 1, self.stop)?;
                self.reply_behind(fed, &ids)?
            }
            None => self.reply(&ids)?,
        };
        let interrupted = stats.stop == StopReason::Interrupted && self.stop.load(Ordering::Relaxed);
        if self.args.json {
            let report = self.report(&text, &stats);
            output::json(&report)?;
        } else {
            output::text("\n")?;
            self.summary(&stats);
        }
        Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
    }

    /// Generates after ids whose beginning may be in the prompt cache.
    fn generate_from_cache(&mut self, ids: Vec<u32>) -> Result<(String, Stats)> {
        let Some(cache) = self.cache.take() else { return self.reply(&ids) };
        let fed = cache.feed(&mut *self.runner, &ids, self.stop)?;
        let (text, stats) = self.reply_behind(fed, &ids)?;
        cache.keep_all(&mut *self.runner, &self.ids, stats.held)?;
        Ok((text, stats))
    }

    /// Generates after ids of which the first ones are fed.
    fn reply_behind(&mut self, fed: CachedPrompt, ids: &[u32]) -> Result<(String, Stats)> {
        (self.held, self.ids) = (fed.held, ids[..fed.held].to_vec());
        self.ids.iter().for_each(|id| self.sampler.accept(*id));
        let (text, mut stats) = self.reply(&ids[fed.held..])?;
        stats.prompt_tokens += fed.now;
        stats.prompt_ms += fed.ms;
        stats.build_ms += fed.build_ms;
        Ok((text, stats))
    }

    /// Reads lines and lets the model continue the one growing sequence, or answer each of them.
    fn interactive(&mut self) -> Result<CommandEnd> {
        output::say(format_args!("type text to continue; Ctrl-C stops a reply, /exit or Ctrl-D ends\n"));
        let typed = std::io::stdin().is_terminal();
        if typed {
            signals::is_conversation();
        }
        let mut line = String::new();
        loop {
            // While nothing is under way, Ctrl-C ends the program, as a second one does at any time.
            self.stop.store(true, Ordering::Relaxed);
            output::say(format_args!("> "));
            line.clear();
            let read = std::io::stdin().lock().read_line(&mut line).map_err(|e| Error::io("stdin".as_ref(), e))?;
            self.stop.store(false, Ordering::Relaxed);
            if read == 0 {
                return Ok(CommandEnd::Done);
            }
            let text = line.trim_end_matches(['\n', '\r']);
            if text.trim() == "/exit" {
                return Ok(CommandEnd::Done);
            }
            let text = if self.args.no_escape { text.to_string() } else { unescape(text) };
            let bos = self.ids.is_empty() && self.tokenizer.add_bos();
            // What the runner does not hold goes first: the last token, or all where a state could not go back.
            let mut ids = self.ids[self.held..].to_vec();
            ids.extend(self.tokenizer.encode(&text, bos, true)?);
            if ids.is_empty() {
                continue;
            }
            if self.answers() {
                ids.extend(self.tokenizer.closing());
            }
            let (_, stats) = self.reply(&ids)?;
            if stats.ended.is_some() {
                self.ids.pop(); // the text goes on as if it had not ended
                self.held = self.runner.forget(0, self.ids.len() as u32).min(self.ids.len());
            }
            let stopped = self.stop.swap(false, Ordering::Relaxed);
            output::text("\n")?;
            self.summary(&stats);
            if stopped && !typed {
                return Ok(CommandEnd::Interrupted);
            }
            if self.answers() {
                self.runner.forget(0, 0);
                (self.held, self.ids) = (0, Vec::new());
            }
        }
    }

    /// Generates after `ids`; streams the text unless `--json`.
    fn reply(&mut self, ids: &[u32]) -> Result<(String, Stats)> {
        let stream = !self.args.json;
        let (tokenizer, stop) = (&self.tokenizer, self.stop);
        let escapes = !self.args.no_escape;
        let reverse = self.args.reverse_prompt.iter().map(|r| if escapes { unescape(r) } else { r.clone() });
        let mut stops = Stops::new(reverse);
        let mut pieces = Stream::new(tokenizer);
        let mut text = String::new();
        let mut failed = None;
        // A reverse prompt stops the loop through Ctrl-C's flag, which is lowered again below.
        let mut halted = false;
        let mut waiting = self.waiting.take();
        let (begun, mut first) = (self.begun, self.ids.is_empty());
        let mut on_token = |id: u32| {
            if std::mem::take(&mut first) {
                tracing::info!("load: first token, {:.0} ms after the start", begun.elapsed().as_secs_f64() * 1e3);
            }
            if let Some((line, first)) = waiting.take() {
                drop(line);
                failed = output::text(&first).err();
            }
            let passed = stops.push(&pieces.push(id));
            let mut piece = passed.text;
            // As in llama.cpp, the reverse prompt is printed.
            passed.stop.into_iter().for_each(|stop| piece.push_str(stops.text(stop)));
            if stream && failed.is_none() {
                failed = output::text(&piece).err();
            }
            text.push_str(&piece);
            if passed.stop.is_some() || failed.is_some() {
                halted = true;
                stop.store(true, Ordering::Relaxed);
            }
        };
        let request = Request {
            prompt: ids,
            media: &self.media,
            start: self.held,
            n_predict: self.args.predict,
            is_end: &|id| tokenizer.is_end(id),
            stop,
            counters: self.args.counters,
        };
        let bos = usize::from(self.tokenizer.add_bos());
        let keep = self.args.chat.context_keep(self.held + ids.len(), bos);
        let mut shifted = |n: usize| tracing::info!("context shift: {n} tokens left out");
        let mut constrained = self.matcher.clone().map(GrammarMask::new);
        let constraint = constrained.as_mut().map(|c| c as &mut dyn Constraint);
        let (runner, all) = (&mut *self.runner, &mut self.ids);
        all.truncate(self.held);
        let chain = (&mut self.sampler, constraint);
        let stats = generate_on(runner, &request, (all, keep), chain, &mut on_token, &mut shifted)?;
        if let Some((line, first)) = waiting {
            drop(line);
            output::text(&first)?;
        }
        self.grammar_ms = constrained.map_or(0.0, |c| c.ms());
        self.held = stats.held.min(self.ids.len());
        if halted {
            stop.store(false, Ordering::Relaxed);
        }
        let mut rest = stops.push(&pieces.flush()).text;
        rest.push_str(&stops.flush());
        text.push_str(&rest);
        match failed {
            Some(error) => return Err(error),
            None if stream => output::text(&rest)?,
            None => {}
        }
        Ok((text, stats))
    }

    /// A token of a listing of log-probabilities.
    fn token_logprob(&self, id: u32, logprob: f64) -> Value {
        let bytes = self.tokenizer.piece(id);
        json!({ "token": String::from_utf8_lossy(bytes), "id": id, "bytes": bytes, "logprob": logprob })
    }

    /// The log-probabilities of the last reply, a line for each token on stderr.
    fn list_logprobs(&mut self) {
        let logprobs = self.sampler.take_logprobs();
        let one =
            |id: u32, logprob: f64| format!("{:?} {logprob:.4}", String::from_utf8_lossy(self.tokenizer.piece(id)));
        for Logprobs { id, logprob, top } in &logprobs {
            let top: Vec<String> = top.iter().map(|(id, logprob)| one(*id, *logprob)).collect();
            output::say(format_args!("{}: {}\n", one(*id, *logprob), top.join(", ")));
        }
    }

    fn summary(&mut self, stats: &Stats) {
        self.list_logprobs();
        if stats.stop == StopReason::ContextFull {
            let n_ctx = self.runner.n_ctx();
            output::say(format_args!(
                "the context of {n_ctx} tokens is full: -c N has more, --context-shift goes on without the oldest\n"
            ));
        }
        if self.args.counters {
            output::say(format_args!("{}", counters_table(stats)));
        }
        if stats.build_ms > 0.0 {
            output::say(format_args!("pipelines: built in {:.1} ms, kept for later runs\n", stats.build_ms));
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

    fn report(&mut self, text: &str, stats: &Stats) -> Value {
        let reversed = stats.stop == StopReason::Interrupted && !self.stop.load(Ordering::Relaxed);
        let stop = if reversed { json!("reverse_prompt") } else { json!(stats.stop) };
        let mut value = json!({
            "text": text,
            "prompt_tokens": stats.prompt_tokens,
            "generated_tokens": stats.generated_tokens,
            "prompt_ms": stats.prompt_ms,
            "prompt_per_second": rate(stats.prompt_tokens, stats.prompt_ms),
            "generate_ms": stats.generate_ms,
            "build_ms": stats.build_ms,
            "generate_per_second": rate(stats.generated_tokens.saturating_sub(1), stats.generate_ms),
            "stop": stop,
            "seed": self.sampler.seed(),
            "device": self.runner.device(),
        });
        if self.matcher.is_some() {
            value["grammar_ms"] = json!(self.grammar_ms);
        }
        if self.args.counters {
            value["counters"] = json!(stats.per_token);
        }
        if self.args.sampling.logprobs.is_some() {
            let logprobs = self.sampler.take_logprobs();
            let one = |l: &Logprobs| {
                let mut value = self.token_logprob(l.id, l.logprob);
                value["top"] = l.top.iter().map(|(id, logprob)| self.token_logprob(*id, *logprob)).collect();
                value
            };
            value["logprobs"] = logprobs.iter().map(one).collect();
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
