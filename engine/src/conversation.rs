//! Loops over a [`Runner`]: prompt in, tokens out; a text's perplexity and its distance from a
//! base model; an importance matrix.
//!
//! [`generate`] feeds a prompt in chunks and then decodes. Where the runner samples, it runs one step ahead: the next step
//! starts from [`Token::Sampled`] before the last one is read, so no readback lies between two steps; what a grammar allows is
//! found meanwhile. What the runner refuses is sampled here, from the best logits of each token or all; ids are the same.
//! `perplexity` scores windows of a text as llama.cpp does.

mod checkpoints;
mod divergence;
mod feed;
mod importance;
mod perplexity;
mod shift;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use pumex_gguf::{Error, Result};
use pumex_step::sample::{Allowed, SampleRequest, Sampler};
use pumex_step::{whole_groups, Counters, Media, Row, RowOutput, Runner, Ticket, Token, Want};

pub use checkpoints::Checkpoints;
pub use divergence::{Base, BaseWriter, Divergence, Summary};
pub use feed::{feed_rows, Feed, MARK};
pub use importance::importance;
pub use perplexity::{perplexity, perplexity_with, Judge, Perplexity, PerplexityOptions};
pub use shift::{generate_on, shift_ids};

/// What a text may be, id by id.
pub trait Constraint {
    /// Which ids may come next, as [`SampleRequest::allowed`](pumex_step::sample::SampleRequest) has them; at least one.
    ///
    /// # Errors
    /// None may.
    fn allowed_ids(&mut self) -> Result<Arc<[u32]>>;
    /// Takes the next id.
    ///
    /// # Errors
    /// One that is not allowed.
    fn accept(&mut self, id: u32) -> Result<()>;
    /// Whether nothing may come but an end.
    fn is_over(&self) -> bool;
}

/// What to generate.
pub struct Request<'a> {
    /// Ids to feed first; at least one. Where the runner answers sources, they are the source.
    pub prompt: &'a [u32],
    /// Media in the place of ids, by their positions in sequence 0: those of the prompt, and of what the runner holds of them.
    pub media: &'a Media,
    /// Position of the first prompt id: how many ids of sequence 0 the runner already holds. A source is the first.
    pub start: usize,
    /// Most tokens to generate; negative means until the context is full.
    pub n_predict: i64,
    /// Whether an id ends the text; an end id is not handed out.
    pub is_end: &'a dyn Fn(u32) -> bool,
    /// Set from outside to stop after the token under way.
    pub stop: &'a AtomicBool,
    /// Whether to note the counters of every token in [`Stats::per_token`].
    pub counters: bool,
}

/// Why a generation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model sampled an end token.
    End,
    /// `n_predict` tokens came out.
    Limit,
    /// The context holds no further token.
    ContextFull,
    /// The stop flag was set.
    Interrupted,
}

/// What a generation did.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Stats {
    /// Ids fed as prompt.
    pub prompt_tokens: usize,
    /// Tokens handed out.
    pub generated_tokens: usize,
    /// Time from the start to the first token (or to the prompt's end when there is none), milliseconds, without
    /// [`Stats::build_ms`].
    pub prompt_ms: f64,
    /// Time from the first to the last token, milliseconds, likewise.
    pub generate_ms: f64,
    /// Time that steps waited for a GPU's pipelines that were not built before, milliseconds.
    pub build_ms: f64,
    /// Why it stopped.
    pub stop: StopReason,
    /// Ids of sequence 0 the runner holds now: the start of a continuation. They are those of the prompt, those handed out and
    /// [`Stats::ended`].
    pub held: usize,
    /// The id that ended the text, where the runner holds it, too: the step that ran ahead began with it, and cannot be undone.
    pub ended: Option<u32>,
    /// The last token handed out when the runner does not hold it yet: a continuation's prompt begins with it.
    pub pending: Option<u32>,
    /// Counters spent on each token (the first includes the prompt); empty unless asked for.
    pub per_token: Vec<Counters>,
}

/// Feeds the request's prompt to sequence 0 and generates tokens, each handed to `on_token` as soon as it is known.
///
/// # Errors
/// An empty prompt, an id outside the vocabulary, a prompt longer than the context, or a failing runner.
pub fn generate(
    runner: &mut dyn Runner,
    request: &Request<'_>,
    sampler: &mut Sampler,
    on_token: &mut dyn FnMut(u32),
) -> Result<Stats> {
    generate_within(runner, request, sampler, None, on_token)
}

/// Generates like [`generate`] a text of a constraint, which has seen nothing of it yet. Where the constraint is over, the text is.
///
/// # Errors
/// As [`generate`]; a constraint that allows nothing: no id is handed out that it does not allow.
pub fn generate_within(
    runner: &mut dyn Runner,
    request: &Request<'_>,
    sampler: &mut Sampler,
    constraint: Option<&mut dyn Constraint>,
    on_token: &mut dyn FnMut(u32),
) -> Result<Stats> {
    check_feed(request.prompt, request.start, request.media, runner.n_vocab())?;
    // An answer begins behind its source, with an id of its own.
    let first = runner.answers_from();
    let held = request.start.saturating_add(request.prompt.len()).saturating_add(usize::from(first.is_some()));
    let n_ctx = runner.n_ctx();
    if request.prompt.is_empty() {
        return Err(Error::Request("the prompt is empty: at least one token is needed".into()));
    }
    if held > n_ctx {
        return Err(Error::Request(format!("the prompt needs {held} positions, the context has {n_ctx}")));
    }
    let room = n_ctx - held;
    let limit = usize::try_from(request.n_predict).map_or(room, |n| n.min(room));
    let mut run = GenerationState {
        runner,
        request,
        first_id: first,
        sampler,
        constraint,
        on_token,
        limit,
        held,
        generated: 0,
        pending: None,
        ended: None,
        begun: Instant::now(),
        first: None,
        built_us: 0.0,
        last: Counters::default(),
        per_token: Vec::new(),
    };
    run.runner.time_steps(run.request.counters);
    run.last = run.runner.counters();
    run.built_us = run.last.build_us;
    let stop = run.all()?;
    let full = stop == StopReason::Limit && usize::try_from(request.n_predict).map_or(true, |n| n > limit);
    Ok(run.stats(if full { StopReason::ContextFull } else { stop }))
}

/// Checks that every id is in the vocabulary.
///
/// # Errors
/// Names the first id that is not.
pub fn check_ids(ids: &[u32], n_vocab: usize) -> Result<()> {
    match ids.iter().find(|&&id| id as usize >= n_vocab) {
        Some(id) => Err(Error::Request(format!("token id {id} is out of range: the vocabulary has {n_vocab} ids"))),
        None => Ok(()),
    }
}

/// Rows of sequence 0 for `ids` at positions from `start` on, each with the output that `output(index)` says.
pub fn rows(ids: &[u32], start: usize, output: impl Fn(usize) -> RowOutput) -> Vec<Row> {
    let row = |(i, &id): (usize, &u32)| {
        let (pos, token) = ((start + i) as u32, Token::Id(id));
        Row { seq: 0, pos, token, output: output(i), medium: None }
    };
    ids.iter().enumerate().map(row).collect()
}

/// Checks that every id is in the vocabulary, or stands for a row of one of these media. The first id is at `start`.
///
/// # Errors
/// Names the first id that is not.
pub fn check_feed(ids: &[u32], start: usize, media: &Media, n_vocab: usize) -> Result<()> {
    if media.is_empty() {
        return check_ids(ids, n_vocab);
    }
    let wrong = |(i, id): &(usize, &u32)| match media.row(start + i) {
        Some(row) => row.of.id(row.index as usize) != **id,
        None => **id as usize >= n_vocab,
    };
    match ids.iter().enumerate().find(wrong) {
        Some((i, id)) => Err(Error::Request(format!(
            "token id {id} at {}: expected one below {n_vocab}, or that of the medium there",
            start + i
        ))),
        None => Ok(()),
    }
}

/// Has the encoder see `ids` as the source of sequence 0, which holds nothing yet.
///
/// # Errors
/// More ids than a step takes; a failing runner.
pub fn feed_source(runner: &mut dyn Runner, ids: &[u32]) -> Result<()> {
    let (len, most) = (ids.len(), runner.max_rows());
    if len > most {
        let what =
            format!("source of {len} tokens: expected at most {most}, as all of it must stand in one step (-ub)");
        return Err(Error::Request(what));
    }
    let mut rows = rows(ids, 0, |_| RowOutput::None);
    rows.iter_mut().zip(ids).for_each(|(row, id)| row.token = Token::Source(*id));
    let ticket = runner.start(&rows)?;
    runner.finish(ticket).map(|_| ())
}

/// Refuses what only models that continue texts do.
fn check_continues(runner: &dyn Runner, what: &str) -> Result<()> {
    match runner.answers_from() {
        Some(_) => Err(Error::Request(format!(
            "{what}: expected a model that continues texts, found one that answers a source, of which a text alone has none"
        ))),
        None => Ok(()),
    }
}

/// Runs `rows` in chunks of the runner's size, rows that see each other in one, with two steps in flight, and hands each chunk's
/// output to `each`. Returns false when `stop` was set before the end.
///
/// # Errors
/// A failing runner; `each`'s own errors.
pub fn run_chunks(
    runner: &mut dyn Runner,
    rows: &[Row],
    stop: &AtomicBool,
    each: &mut dyn FnMut(pumex_step::Output) -> Result<()>,
) -> Result<bool> {
    let mut ahead: Option<Ticket> = None;
    let mut whole = true;
    let mut rest = rows;
    while !rest.is_empty() {
        let (chunk, more) = rest.split_at(whole_groups(rest, runner.max_rows())?);
        rest = more;
        if stop.load(Ordering::Relaxed) {
            whole = false;
            break;
        }
        let ticket = runner.start(chunk)?;
        if let Some(earlier) = ahead.replace(ticket) {
            each(runner.finish(earlier)?)?;
        }
    }
    if let Some(last) = ahead {
        each(runner.finish(last)?)?;
    }
    Ok(whole)
}

/// How ids are chosen on the device, a step ahead of the host.
#[derive(Clone, Copy, PartialEq)]
enum Ahead {
    /// The largest logit.
    Largest,
    /// By the sampler's chain.
    Sampled,
    /// By the sampler's chain, from what a constraint allows.
    Constrained,
}

/// State of one generation.
struct GenerationState<'a, 'b, 'c> {
    runner: &'a mut dyn Runner,
    request: &'a Request<'b>,
    /// What an answer begins with, if the prompt is a source.
    first_id: Option<u32>,
    sampler: &'a mut Sampler,
    constraint: Option<&'c mut dyn Constraint>,
    on_token: &'a mut dyn FnMut(u32),
    limit: usize,
    held: usize,
    generated: usize,
    pending: Option<u32>,
    ended: Option<u32>,
    begun: Instant,
    /// When the first token was known, and the microseconds that pipelines had taken by then, at the start and now.
    first: Option<(Instant, f64)>,
    built_us: f64,
    last: Counters,
    per_token: Vec<Counters>,
}

impl GenerationState<'_, '_, '_> {
    fn all(&mut self) -> Result<StopReason> {
        let (mut prompt, mut start) = (self.request.prompt, self.request.start);
        if let Some(first) = &self.first_id {
            feed_source(self.runner, prompt)?;
            (prompt, start) = (std::slice::from_ref(first), prompt.len());
        }
        for &id in prompt {
            self.sampler.accept(id);
        }
        // The last chunk is left to the decoding loops, which read an output row from it.
        let mut all = feed_rows(prompt, start, self.request.media, |_| RowOutput::None);
        let (most, mut tail) = (self.runner.max_rows(), 0);
        loop {
            match whole_groups(&all[tail..], most)? {
                count if tail + count < all.len() => tail += count,
                _ => break,
            }
        }
        let mut last = all.split_off(tail);
        if !run_chunks(self.runner, &all, self.request.stop, &mut |_| Ok(()))? {
            // Whole chunks in the cache cannot be told from unfinished ones here: drop them all.
            self.held = self.runner.forget(0, self.request.start as u32).min(self.request.start);
            return Ok(StopReason::Interrupted);
        }
        if let Some(row) = last.last_mut().filter(|_| self.limit > 0) {
            row.output = RowOutput::Id;
        }
        if self.limit == 0 {
            self.runner.run(&last, Want::Ids)?;
            self.first = Some(self.now());
            return Ok(StopReason::Limit);
        }
        let options = self.sampler.options();
        if self.constraint.is_none() && options.is_argmax() {
            return self.ahead(last, Ahead::Largest);
        }
        match self.runner.refuses(options) {
            None if self.constraint.is_none() => self.ahead(last, Ahead::Sampled),
            None if self.runner.allows_later() => self.ahead(last, Ahead::Constrained),
            None => self.here(last),
            Some(reason) => {
                tracing::info!("sampling on the host: {reason}");
                self.here(last)
            }
        }
    }

    /// Two steps in flight, if the runner works while the host goes on: the next one starts from the id that the current one
    /// will sample. Where there is a constraint, the next
    /// one's forward pass is under way when it is known which ids it allows.
    fn ahead(&mut self, prompt: Vec<Row>, way: Ahead) -> Result<StopReason> {
        let mut current = self.begin(prompt, way)?;
        self.allow(current, way)?;
        loop {
            let more = self.generated + 1 < self.limit;
            let row = |token| Row { seq: 0, pos: self.held as u32, token, output: RowOutput::Id, medium: None };
            let ahead = (more && self.runner.runs_ahead()).then(|| row(Token::Sampled));
            let mut next = ahead.map(|row| self.begin(vec![row], way)).transpose()?;
            let id = one_id(&self.runner.finish(current)?.ids)?;
            let taken = self.take(id);
            if more && next.is_none() && matches!(taken, Ok(None)) {
                let row =
                    Row { seq: 0, pos: self.held as u32, token: Token::Id(id), output: RowOutput::Id, medium: None };
                next = Some(self.begin(vec![row], way)?);
            }
            match (taken, next) {
                (Ok(None), Some(ticket)) => {
                    if let Err(error) = self.allow(ticket, way) {
                        self.drain(Some(ticket), id)?;
                        return Err(error);
                    }
                    current = ticket;
                }
                (taken, next) => {
                    self.drain(next, id)?;
                    return taken.map(|stop| stop.unwrap_or(StopReason::Limit));
                }
            }
            self.held += 1;
            self.pending = None;
        }
    }

    /// Starts a step whose only output row is the last.
    fn begin(&mut self, mut rows: Vec<Row>, way: Ahead) -> Result<Ticket> {
        if let Some(row) = rows.last_mut().filter(|_| way != Ahead::Largest) {
            let allowed = if way == Ahead::Constrained { Allowed::Later } else { Allowed::All };
            let request = self.sampler.request(row.token == Token::Sampled);
            row.output = RowOutput::Sample(SampleRequest { allowed, ..request });
        }
        self.runner.start(&rows)
    }

    /// Says which ids the constraint allows next in a step under way.
    fn allow(&mut self, ticket: Ticket, way: Ahead) -> Result<()> {
        match &mut self.constraint {
            Some(constraint) if way == Ahead::Constrained => {
                let allowed = Allowed::These(constraint.allowed_ids()?);
                self.runner.allow(ticket, &[allowed])
            }
            _ => Ok(()),
        }
    }

    /// One step at a time, whose ids are sampled here: from a shortlist where that suffices, else from all logits.
    fn here(&mut self, mut rows: Vec<Row>) -> Result<StopReason> {
        loop {
            let id = self.step_and_sample(&mut rows)?;
            if let Some(stop) = self.take(id)? {
                return Ok(stop);
            }
            rows = vec![Row {
                seq: 0,
                pos: self.held as u32,
                token: Token::Id(id),
                output: RowOutput::None,
                medium: None,
            }];
            self.held += 1;
            self.pending = None;
        }
    }

    /// Runs a step and samples the last row's id.
    fn step_and_sample(&mut self, rows: &mut [Row]) -> Result<u32> {
        let Some(row) = rows.last_mut() else { return Err(Error::Request("a step without rows".into())) };
        // The constraint's turn is while the step runs, if the runner can be told later.
        let later = self.constraint.is_some() && self.runner.allows_later();
        let mut allowed = match &mut self.constraint {
            Some(constraint) if !later => Allowed::These(constraint.allowed_ids()?),
            Some(_) => Allowed::Later,
            None => Allowed::All,
        };
        let shortlist = self.sampler.shortlist(allowed.clone()).filter(|_| self.runner.lists());
        let lists = shortlist.is_some();
        row.output = shortlist.map_or(RowOutput::Logits, RowOutput::Shortlist);
        let ticket = self.runner.start(rows)?;
        if let Some(constraint) = self.constraint.as_mut().filter(|_| later) {
            match constraint.allowed_ids() {
                Ok(bits) => allowed = Allowed::These(bits),
                Err(error) => {
                    self.runner.finish(ticket)?;
                    return Err(error);
                }
            }
            if lists {
                self.runner.allow(ticket, std::slice::from_ref(&allowed))?;
            }
        }
        let output = self.runner.finish(ticket)?;
        let listed = output.shortlists.first().and_then(|list| self.sampler.sample_listed(list, &allowed));
        if let Some(id) = listed {
            return Ok(id);
        }
        let logits = if lists { self.runner.last_logits()? } else { output.logits };
        if logits.is_empty() {
            return Err(Error::Request("the runner gave no logits for an output row".into()));
        }
        self.sampler.sample_of(&logits, allowed).ok_or(Error::nan_logits(0))
    }

    /// Takes an id that was sampled; a reason when it was the last.
    fn take(&mut self, id: u32) -> Result<Option<StopReason>> {
        if let Some(constraint) = &mut self.constraint {
            // Where nothing allowed is possible, what was sampled is not allowed.
            constraint.accept(id)?;
        }
        let stop = self.hand_out(id);
        let over = self.constraint.as_ref().is_some_and(|constraint| constraint.is_over());
        Ok(stop.or(over.then_some(StopReason::End)))
    }

    /// Gives `id` to the caller; a reason when it was the last.
    fn hand_out(&mut self, id: u32) -> Option<StopReason> {
        self.first = self.first.or_else(|| Some(self.now()));
        if (self.request.is_end)(id) && !self.sampler.is_banned(id) {
            return Some(StopReason::End);
        }
        self.sampler.accept(id);
        self.generated += 1;
        self.pending = Some(id);
        if self.request.counters {
            let now = self.runner.counters();
            self.per_token.push(difference(&now, &self.last));
            self.last = now;
        }
        (self.on_token)(id);
        if self.request.stop.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupted);
        }
        (self.generated >= self.limit).then_some(StopReason::Limit)
    }

    /// Waits for a step that ran ahead in vain and takes its row, which holds the last `id`, out of the cache again, and its request
    /// back. Where a state cannot go back, the row stays.
    fn drain(&mut self, ahead: Option<Ticket>, id: u32) -> Result<()> {
        let Some(ticket) = ahead else { return Ok(()) };
        self.runner.finish(ticket)?;
        self.sampler.undo_request();
        if self.runner.can_cut(0, self.held as u32) {
            self.runner.forget(0, self.held as u32);
            return Ok(());
        }
        self.held += 1;
        if self.pending.take() != Some(id) {
            self.ended = Some(id);
        }
        Ok(())
    }

    /// The time, and what pipelines took so far.
    fn now(&self) -> (Instant, f64) {
        (Instant::now(), self.runner.counters().build_us)
    }

    fn stats(self, stop: StopReason) -> Stats {
        let (end, built_us) = self.now();
        let (first, first_us) = self.first.unwrap_or((end, built_us));
        // Of `from` to `to`, what was not spent on pipelines.
        let ms =
            |from: Instant, to: Instant, built_us: f64| ((to - from).as_secs_f64() * 1e3 - built_us / 1e3).max(0.0);
        Stats {
            prompt_tokens: self.request.prompt.len(),
            generated_tokens: self.generated,
            prompt_ms: ms(self.begun, first, first_us - self.built_us),
            generate_ms: ms(first, end, built_us - first_us),
            build_ms: (built_us - self.built_us) / 1e3,
            stop,
            held: self.held,
            pending: self.pending,
            ended: self.ended,
            per_token: self.per_token,
        }
    }
}

fn one_id(ids: &[u32]) -> Result<u32> {
    ids.first().copied().ok_or_else(|| Error::Request("the runner gave no id for an output row".into()))
}

/// What happened between two snapshots.
pub fn difference(now: &Counters, before: &Counters) -> Counters {
    Counters {
        submits: now.submits - before.submits,
        host_waits: now.host_waits - before.host_waits,
        device_waits: now.device_waits - before.device_waits,
        barriers: now.barriers - before.barriers,
        dispatches: now.dispatches - before.dispatches,
        push_bytes: now.push_bytes - before.push_bytes,
        bytes_to_device: now.bytes_to_device - before.bytes_to_device,
        bytes_from_device: now.bytes_from_device - before.bytes_from_device,
        allocations: now.allocations - before.allocations,
        recordings: now.recordings - before.recordings,
        pipelines: now.pipelines - before.pipelines,
        record_us: now.record_us - before.record_us,
        build_us: now.build_us - before.build_us,
        gpu_us: now.gpu_us - before.gpu_us,
    }
}
