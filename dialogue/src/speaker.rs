//! Has a runner write an answer: feeds what is new, generates, and reads reasoning, text and calls while they come.
//!
//! A conversation is rendered anew each turn, and what differs from the ids that the runner holds is fed. `Runner::forget` says
//! how much of a sequence is still there, which for a recurrent state may be nothing; models that keep less than all positions go
//! on from checkpoints then, one behind each message and each answer.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use pumex_chat::reply::Event;
use pumex_chat::RenderedPrompt;

use super::message::{Function, Message, ToolCall};
use super::reply::ReplyReader;
use super::style::Style;
use pumex_engine::conversation::{
    check_feed, feed_rows, generate_on, run_chunks, Checkpoints, Constraint, Request, Stats, StopReason,
};
use pumex_gguf::{Error, Result};
use pumex_step::sample::Sampler;
use pumex_step::{Media, Medium, RowOutput, Runner};
use pumex_text::Tokenizer;

/// What is asked of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerOptions<'a> {
    /// Most tokens; negative means until the context is full.
    pub predict: i64,
    /// Most tokens of reasoning; none: as many as the model likes.
    pub budget: Option<usize>,
    /// Texts that end it.
    pub stops: &'a [String],
    /// Ids at the start that stay when the context is full and the answer goes on; none: it ends there.
    pub keep: Option<usize>,
    /// Whether ids that end answers are none.
    pub ignore_ends: bool,
    /// Set from outside to stop.
    pub stop: &'a AtomicBool,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// The model ended its turn.
    Turn,
    /// One of the texts that end it came.
    Text,
    /// The answer has as many tokens as were asked for.
    Limit,
    /// The context holds no further token.
    ContextFull,
    /// It was stopped from outside.
    Interrupted,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its message: text, reasoning, whole calls.
    pub message: Message,
    /// Why it ended.
    pub end: AnswerEnd,
    /// Tokens of the prompt that were fed, of those that it has.
    pub fed: (usize, usize),
    /// Tokens that were generated.
    pub generated: usize,
    /// Time of the prompt and of the answer, milliseconds.
    pub ms: (f64, f64),
    /// Positions of the context in use.
    pub held: usize,
    /// Times that the context was full and went on with less.
    pub shifts: usize,
}

/// A runner with what it holds, and what makes text of ids.
pub struct Speaker<'a> {
    /// The model's vocabulary.
    pub tokenizer: Tokenizer,
    /// Chooses ids.
    pub sampler: Sampler,
    runner: Box<dyn Runner + 'a>,
    /// Media that ids may stand for.
    known: Vec<Arc<Medium>>,
    /// Ids of sequence 0 that the runner holds.
    fed: Vec<u32>,
    checkpoints: Checkpoints,
    /// Told how many tokens of a prompt are fed, of those that are new, whenever some were.
    on_prompt: Option<OnPrompt<'a>>,
    calls: usize,
}

/// Is told how many ids of a prompt are read, and of how many: see [`Speaker::watch_prompts`].
pub type OnPrompt<'a> = Box<dyn FnMut(usize, usize) + 'a>;

/// What an answer is so far.
struct AnswerDraft<'a> {
    reply: ReplyReader,
    message: Message,
    calls: Vec<(ToolCall, bool)>,
    on_event: &'a mut dyn FnMut(&Event) -> Result<()>,
    failed: Option<Error>,
}

impl AnswerDraft<'_> {
    fn give(&mut self, event: Event) {
        match &event {
            Event::Content(text) => self.message.content.push_str(text),
            Event::Reasoning(text) => self.message.reasoning_content.get_or_insert_default().push_str(text),
            Event::CallStart { name, id, .. } => {
                let function = Function { name: name.clone(), arguments: String::new() };
                let (id, kind) = (id.clone().unwrap_or_default(), "function".to_string());
                self.calls.push((ToolCall { id, kind, function }, false));
            }
            Event::CallId { index, id } => {
                self.calls.get_mut(*index).into_iter().for_each(|(call, _)| call.id.clone_from(id));
            }
            Event::CallArguments { index, delta } => {
                self.calls.get_mut(*index).into_iter().for_each(|(call, _)| call.function.arguments.push_str(delta));
            }
            Event::CallEnd { index, complete } => {
                self.calls.get_mut(*index).into_iter().for_each(|(_, whole)| *whole = *complete);
            }
        }
        if self.failed.is_none() {
            self.failed = (self.on_event)(&event).err();
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.reply.push(bytes).into_iter().for_each(|event| self.give(event));
    }

    fn finish(&mut self) {
        self.reply.finish().into_iter().for_each(|event| self.give(event));
    }
}

/// A constraint of what comes after reasoning: it does not see that.
struct AfterReasoning<'a> {
    inner: &'a mut dyn Constraint,
    thinking: &'a Cell<bool>,
    /// All ids.
    all: Arc<[u32]>,
}

impl Constraint for AfterReasoning<'_> {
    fn allowed_ids(&mut self) -> Result<Arc<[u32]>> {
        match self.thinking.get() {
            true => Ok(self.all.clone()),
            false => self.inner.allowed_ids(),
        }
    }

    fn accept(&mut self, id: u32) -> Result<()> {
        match self.thinking.get() {
            true => Ok(()),
            false => self.inner.accept(id),
        }
    }

    fn is_over(&self) -> bool {
        !self.thinking.get() && self.inner.is_over()
    }
}

impl<'a> Speaker<'a> {
    /// A runner whose sequence 0 is empty.
    pub fn new(runner: Box<dyn Runner + 'a>, tokenizer: Tokenizer, sampler: Sampler) -> Speaker<'a> {
        let (fed, checkpoints) = (Vec::new(), Checkpoints::default());
        Speaker { tokenizer, sampler, runner, known: Vec::new(), fed, checkpoints, on_prompt: None, calls: 0 }
    }

    /// Keeps states to go back to in these sequences of the runner, where it cannot go back by itself.
    #[must_use]
    pub fn with_checkpoints(self, sequences: std::ops::Range<u32>) -> Self {
        Speaker { checkpoints: Checkpoints::new(sequences), ..self }
    }

    /// Has `told` hear, whenever a part of a prompt was fed, how many of its new tokens were, and how many there are.
    pub fn watch_prompts(&mut self, told: OnPrompt<'a>) {
        self.on_prompt = Some(told);
    }

    /// The runner.
    pub fn runner(&self) -> &dyn Runner {
        &*self.runner
    }

    /// Has prompts know these media, whose ids may stand in them.
    pub fn know(&mut self, media: Vec<Arc<Medium>>) {
        self.known = media;
    }

    /// Positions in use.
    pub fn positions_in_use(&self) -> usize {
        self.fed.len()
    }

    /// Feeds ids up to a last part of at most one step. Gives the position from which on they were new, and that of the last part;
    /// none if it was stopped. `mark` is where the last message ends, from where a later prompt may go on otherwise; none amid an answer.
    fn feed(&mut self, ids: &[u32], mark: Option<usize>, stop: &AtomicBool) -> Result<Option<(usize, usize)>> {
        let wanted = &ids[..ids.len().saturating_sub(1)];
        let media = Media::find(&self.known, ids);
        let mut from = self.resume(wanted)?;
        if media.cut_before(from) < from {
            // Rows of a medium that see each other stand in one step: it is fed again as a whole.
            from = self.resume(&ids[..media.cut_before(from)])?;
        }
        let most = self.runner.max_rows().max(1);
        if let Some(mark) = mark.filter(|_| !self.checkpoints.is_off()) {
            self.checkpoints.retain_beginnings(&mut *self.runner, wanted);
            self.checkpoints.keep(&mut *self.runner, 0, &ids[..from])?;
            if (from + 1..=wanted.len()).contains(&mark) {
                if !self.feed_part(ids, (from, from, mark), stop)? {
                    return Ok(None);
                }
                self.checkpoints.keep(&mut *self.runner, 0, &ids[..mark])?;
            }
        }
        let at = self.fed.len();
        let head = media.cut_before(at + wanted[at..].len() / most * most);
        let whole = self.feed_part(ids, (from, at, head.max(at)), stop)?;
        Ok(whole.then_some((from, self.fed.len())))
    }

    /// Makes sequence 0 as much of `wanted` as can be had without computing it; gives its length.
    fn resume(&mut self, wanted: &[u32]) -> Result<usize> {
        let fed = std::mem::take(&mut self.fed);
        let from = self.checkpoints.resume(&mut *self.runner, 0, &fed, wanted)?;
        self.fed.extend(&wanted[..from]);
        self.sampler.look_back(&self.fed);
        Ok(from)
    }

    /// Feeds the ids from `at` to `to`, of those that are new from `new` on; whether it was not stopped.
    fn feed_part(&mut self, ids: &[u32], (new, at, to): (usize, usize, usize), stop: &AtomicBool) -> Result<bool> {
        let (mut done, total) = (at - new, ids.len() - new);
        let (runner, on_prompt) = (&mut *self.runner, &mut self.on_prompt);
        let most = runner.max_rows().max(1);
        let media = Media::find(&self.known, ids);
        let rows = feed_rows(&ids[at..to], at, &media, |_| RowOutput::None);
        let whole = run_chunks(runner, &rows, stop, &mut |_| {
            done = (done + most).min(to - new);
            on_prompt.iter_mut().for_each(|told| told(done, total));
            Ok(())
        })?;
        if !whole {
            self.resume(&ids[..at])?;
            return Ok(false);
        }
        ids[at..to].iter().for_each(|id| self.sampler.accept(*id));
        self.fed.extend(&ids[at..to]);
        Ok(true)
    }

    /// How many ids the template wrote behind the last message.
    fn behind_messages(&self, prompt: &RenderedPrompt) -> Result<usize> {
        let own = prompt.parts().last().filter(|(_, own)| *own).map_or("", |(text, _)| text);
        Ok(self.tokenizer.encode(own, false, true)?.len())
    }

    /// Writes the answer to a prompt whose ids are `ids`; what comes after its reasoning is within `constraint`. `on_event` sees it
    /// come.
    ///
    /// # Errors
    /// A prompt that is empty or leaves no room; a failing runner; `on_event`'s own.
    pub fn answer(
        &mut self,
        style: &Style,
        (prompt, mut ids): (&RenderedPrompt, Vec<u32>),
        (asked, mut constraint): (&AnswerOptions<'_>, Option<&mut dyn Constraint>),
        on_event: &mut dyn FnMut(&Event) -> Result<()>,
    ) -> Result<Answer> {
        let n_ctx = self.runner.n_ctx();
        check_feed(&ids, 0, &Media::find(&self.known, &ids), self.runner.n_vocab())?;
        if self.runner.answers_from().is_some() {
            return Err(Error::Request(
                "a conversation: expected a model that continues texts, found one that answers a source".into(),
            ));
        }
        if ids.is_empty() {
            return Err(Error::Request("the template made an empty prompt".into()));
        }
        let stops = asked.stops.iter().cloned().chain(style.stop().map(str::to_string));
        let mut draft = AnswerDraft {
            reply: ReplyReader::new(style.format(), style.tools.as_ref(), &prompt.text, stops),
            message: Message::new("assistant", ""),
            calls: Vec::new(),
            on_event,
            failed: None,
        };
        let close = style.format().end_of_reasoning(constraint.is_some()).unwrap_or_default();
        let close_ids = self.tokenizer.encode(&close, false, true)?;
        // A full context that goes on needs the blocks that checkpoints would hold of what is left out.
        if asked.keep.is_some() {
            self.checkpoints.retain_beginnings(&mut *self.runner, &[]);
        }
        let mark = ids.len().saturating_sub(self.behind_messages(prompt)?);
        let mark = asked.keep.is_none().then_some(mark);
        if asked.budget == Some(0) && draft.reply.is_reasoning() {
            ids.extend(&close_ids);
            draft.push(close.as_bytes());
        }
        if ids.len() >= n_ctx {
            return Err(Error::Request(format!(
                "the prompt needs {} positions and one to answer, the context has {n_ctx}",
                ids.len()
            )));
        }
        let (total, begun) = (ids.len(), Instant::now());
        let Some((before, mut start)) = self.feed(&ids, mark, asked.stop)? else {
            let ms = (begun.elapsed().as_secs_f64() * 1e3, 0.0);
            let (message, held) = (draft.message, self.fed.len());
            return Ok(Answer {
                message,
                end: AnswerEnd::Interrupted,
                fed: (0, total),
                generated: 0,
                ms,
                held,
                shifts: 0,
            });
        };
        let head_ms = begun.elapsed().as_secs_f64() * 1e3;
        let (mut generated, mut ms, mut shifts, mut thought) = (0usize, (head_ms, 0.0), 0, 0usize);
        let mut part = ids[start..].to_vec();
        let thinking = Cell::new(false);
        let all: Arc<[u32]> = vec![u32::MAX; self.runner.n_vocab().div_ceil(32)].into();
        let end = loop {
            thinking.set(draft.reply.is_reasoning());
            let mut within = constraint.as_mut().map(|inner| AfterReasoning {
                inner: &mut **inner,
                thinking: &thinking,
                all: all.clone(),
            });
            let within = within.as_mut().map(|within| within as &mut dyn Constraint);
            let halt = AtomicBool::new(false);
            let over = Cell::new(false);
            let ended = Cell::new(None);
            let left = if asked.predict < 0 { -1 } else { asked.predict - generated as i64 };
            let (stats, out) =
                self.part(style, (&part, start, left), (asked, within), (&halt, &ended), &mut shifts, &mut |bytes| {
                    thought += usize::from(draft.reply.is_reasoning());
                    draft.push(bytes);
                    thinking.set(draft.reply.is_reasoning());
                    over.set(draft.reply.is_reasoning() && asked.budget.is_some_and(|most| thought >= most));
                    let stop = over.get()
                        || draft.reply.stop_text().is_some()
                        || draft.failed.is_some()
                        || asked.stop.load(Ordering::Relaxed);
                    halt.store(stop, Ordering::Relaxed);
                })?;
            ms = (ms.0 + if generated == 0 { stats.prompt_ms } else { 0.0 }, ms.1 + stats.generate_ms);
            generated += stats.generated_tokens;
            let user = asked.stop.load(Ordering::Relaxed);
            if over.get() && !user && draft.failed.is_none() && stats.stop != StopReason::ContextFull {
                draft.push(close.as_bytes());
                let ids: Vec<u32> = out.into_iter().chain(close_ids.iter().copied()).collect();
                if ids.len() < n_ctx {
                    let Some((_, at)) = self.feed(&ids, None, asked.stop)? else { break AnswerEnd::Interrupted };
                    (start, part) = (at, ids[at..].to_vec());
                    continue;
                }
                break AnswerEnd::ContextFull;
            }
            if let Some(id) = ended.get() {
                draft.push(style.visible_bytes(&self.tokenizer, id));
            }
            break match stats.stop {
                _ if draft.reply.stop_text().is_some() => AnswerEnd::Text,
                StopReason::End => AnswerEnd::Turn,
                StopReason::Limit => AnswerEnd::Limit,
                StopReason::ContextFull => AnswerEnd::ContextFull,
                StopReason::Interrupted => AnswerEnd::Interrupted,
            };
        };
        draft.finish();
        if let Some(error) = draft.failed {
            return Err(error);
        }
        let mut message = draft.message;
        message.content.truncate(message.content.trim_end().len());
        message.tool_calls = draft.calls.into_iter().filter(|(_, whole)| *whole).map(|(call, _)| call).collect();
        for call in message.tool_calls.iter_mut().filter(|call| call.id.is_empty()) {
            self.calls += 1;
            call.id = format!("call{:05}", self.calls); // nine letters and digits, as some templates want
        }
        Ok(Answer { message, end, fed: (total - before, total), generated, ms, held: self.fed.len(), shifts })
    }

    /// Generates once. Also gives all ids: those that the runner holds, and the last one if it does not hold it yet.
    #[allow(clippy::too_many_arguments)]
    fn part(
        &mut self,
        style: &Style,
        (prompt, start, n_predict): (&[u32], usize, i64),
        (asked, constraint): (&AnswerOptions<'_>, Option<&mut dyn Constraint>),
        (halt, ended): (&AtomicBool, &Cell<Option<u32>>),
        shifts: &mut usize,
        on_bytes: &mut dyn FnMut(&[u8]),
    ) -> Result<(Stats, Vec<u32>)> {
        let mut all = std::mem::take(&mut self.fed);
        let Speaker { tokenizer, runner, sampler, .. } = self;
        let is_end = |id: u32| {
            let end = !asked.ignore_ends && (tokenizer.is_end(id) || style.is_end(id));
            if end {
                ended.set(Some(id));
            }
            end
        };
        let (media, stop) = (&Media::find(&self.known, &[&all[..], prompt].concat()), halt);
        let request = Request { prompt, media, start, n_predict, is_end: &is_end, stop, counters: false };
        let mut on_token = |id: u32| on_bytes(style.visible_bytes(tokenizer, id));
        let mut on_shift = |_| *shifts += 1;
        let stats = generate_on(
            &mut **runner,
            &request,
            (&mut all, asked.keep),
            (sampler, constraint),
            &mut on_token,
            &mut on_shift,
        );
        // After an error nobody knows what the runner holds.
        if stats.is_err() {
            self.runner.forget(0, 0);
        }
        let stats = stats?;
        self.fed = all[..stats.held.min(all.len())].to_vec();
        Ok((stats, all))
    }
}
