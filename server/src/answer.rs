//! One answer while it is written: ids in, events out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use pumex_chat::reply::Event as Read;
use pumex_dialogue::grammar::GrammarMask;
use pumex_dialogue::{ReplyReader, Style};
use pumex_engine::conversation::Constraint;
use pumex_gguf::Result;
use pumex_serve::engine::{Event, FinishReason, GeneratedToken, Phase, RequestSwitch, TokenLogprob};
use pumex_step::sample::{logprobs, Allowed, Logprobs, Sampler};
use pumex_text::{Characters, Stops, Tokenizer};

/// How ids become what is told.
pub enum OutputForm {
    /// Text up to what ends it.
    Plain(Characters, Stops),
    /// A reply of a conversation, in the model's style.
    Chat(Box<ReplyReader>, Arc<Style>),
}

/// What a reply may reason.
#[derive(Clone, Debug, Default)]
pub struct ReasoningBudget {
    /// Most tokens; none: any number.
    pub most: Option<usize>,
    /// Text and ids that end it.
    pub close: (String, Vec<u32>),
    /// Ends it whenever that is asked for.
    pub end: Option<RequestSwitch>,
}

impl ReasoningBudget {
    /// Whether reasoning of so many tokens is to end.
    fn is_over(&self, reasoned: usize) -> bool {
        self.most.is_some_and(|most| reasoned >= most) || self.end.as_ref().is_some_and(RequestSwitch::is_set)
    }
}

/// What follows an id.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The next one.
    Goes,
    /// These ids, as if they had been chosen.
    Forced(Vec<u32>),
    /// Nothing.
    Over(FinishReason),
}

/// One answer.
pub struct Answer {
    /// Its number in the request.
    pub number: usize,
    /// Chooses ids.
    pub sampler: Sampler,
    /// Most tokens; none: until the context is full.
    pub limit: Option<usize>,
    /// Tokens so far.
    pub generated: usize,
    /// Tokens of reasoning among them.
    pub reasoned: usize,
    /// Whether a line break came.
    pub has_new_line: bool,
    /// Whether the context was full once and went on with less.
    pub truncated: bool,
    /// When the first token came, and the last.
    pub times: Option<(Instant, Instant)>,
    /// Most milliseconds after the first token that end a line.
    pub most_ms: Option<u64>,
    /// Whether it is of the sampler's own chances, after its chain, that probabilities are told.
    pub after_chain: bool,
    form: OutputForm,
    constraint: Option<GrammarMask>,
    budget: ReasoningBudget,
    ignore_ends: bool,
    ends: Ends,
    calls: usize,
    /// What is told of the prompt; none: nothing is.
    prompt: Option<PromptLogprobs>,
    /// Tokens whose text waits.
    pending: Vec<GeneratedToken>,
    phase: Phase,
    /// Probabilities of the id chosen last.
    noted: Option<(f32, Vec<(u32, f32)>)>,
}

/// What an answer is made with.
pub struct AnswerPlan {
    /// Chooses ids; has seen the prompt.
    pub sampler: Sampler,
    /// How ids become what is told.
    pub form: OutputForm,
    /// What the answer is within, but for its reasoning.
    pub constraint: Option<GrammarMask>,
    /// Reasoning.
    pub budget: ReasoningBudget,
    /// Most tokens.
    pub limit: Option<usize>,
    /// Most milliseconds.
    pub most_ms: Option<u64>,
    /// Whether log-probabilities are those after the chain: see [`Answer::after_chain`].
    pub after_chain: bool,
    /// Whether ids that end answers are none.
    pub ignore_ends: bool,
    /// Ids that end it.
    pub ends: Ends,
    /// How many of the best ids are told at each position of the prompt, of which there are so many.
    pub prompt: Option<(usize, usize)>,
}

/// Ids that end an answer beside the model's, and how many tokens must come before any of them does.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Ids.
    pub own: Vec<u32>,
    /// Tokens.
    pub least: usize,
    /// A bit for each id that is none, where tokens must come before one.
    pub others: Arc<[u32]>,
}

/// What is told of a prompt: at each position the log-probability of the id that stands there, and the best ids'.
struct PromptLogprobs {
    most: usize,
    at: Vec<Option<(f32, Best)>>,
}

/// Ids with their log-probabilities.
type Best = Vec<(u32, f32)>;

/// Names of calls: nine letters and digits, as some templates want.
fn call_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mut mixed = (clock ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut digit = || {
        mixed ^= mixed >> 29;
        let digit = DIGITS[(mixed % 36) as usize];
        mixed /= 36;
        char::from(digit)
    };
    (0..9).map(|_| digit()).collect()
}

impl Answer {
    /// An answer that has not begun.
    pub fn new(number: usize, plan: AnswerPlan) -> Answer {
        Answer {
            number,
            sampler: plan.sampler,
            limit: plan.limit,
            generated: 0,
            reasoned: 0,
            has_new_line: false,
            truncated: false,
            times: None,
            most_ms: plan.most_ms,
            after_chain: plan.after_chain,
            form: plan.form,
            constraint: plan.constraint,
            budget: plan.budget,
            ignore_ends: plan.ignore_ends,
            ends: plan.ends,
            calls: 0,
            prompt: plan.prompt.map(|(most, len)| PromptLogprobs { most, at: vec![None; len] }),
            pending: Vec::new(),
            phase: Phase::Content,
            noted: None,
        }
    }

    /// Whether it is within a constraint.
    pub fn is_constrained(&self) -> bool {
        self.constraint.is_some() || self.ends.least > 0
    }

    /// Whether something is told of the prompt.
    pub fn tells_prompt(&self) -> bool {
        self.prompt.is_some()
    }

    /// Notes of the logits behind a position of the prompt what is told of the id that stands next.
    pub fn note_prompt(&mut self, behind: usize, next: u32, logits: &[f32]) {
        let Some(told) = &mut self.prompt else { return };
        if let Some(at) = told.at.get_mut(behind + 1) {
            let found = logprobs(logits, next, told.most);
            *at = found.map(|l| (l.logprob as f32, l.top.into_iter().map(|(id, l)| (id, l as f32)).collect()));
        }
    }

    /// Tells once what is told of the prompt, whose ids these are.
    pub fn tell_prompt(&mut self, tokenizer: &Tokenizer, ids: &[u32], out: &mut Vec<Event>) {
        let Some(told) = self.prompt.take() else { return };
        let bytes = |id: u32| tokenizer.piece(id).to_vec();
        let piece = |(id, noted): (&u32, Option<(f32, Best)>)| {
            let (logprob, best) = noted.map_or((None, Vec::new()), |(own, best)| (Some(own), best));
            let top = best.into_iter().map(|(id, logprob)| TokenLogprob { id, bytes: bytes(id), logprob }).collect();
            GeneratedToken { id: *id, bytes: bytes(*id), logprob, top }
        };
        out.push(Event::Prompt { tokens: ids.iter().zip(told.at).map(piece).collect() });
    }

    fn is_reasoning(&self) -> bool {
        matches!(&self.form, OutputForm::Chat(reply, _) if reply.is_reasoning())
    }

    /// Which ids may come next.
    ///
    /// # Errors
    /// None may.
    pub fn allowed_ids(&mut self) -> Result<Allowed> {
        let free = self.is_reasoning();
        let these = match &mut self.constraint {
            Some(constraint) if !free => Some(constraint.allowed_ids()?),
            _ => None,
        };
        if self.generated >= self.ends.least {
            return Ok(these.map_or(Allowed::All, Allowed::These));
        }
        Ok(Allowed::These(match these {
            None => self.ends.others.clone(),
            Some(these) => {
                let left: Arc<[u32]> = these.iter().zip(&*self.ends.others).map(|(a, b)| a & b).collect();
                // A text that must end here does.
                if left.iter().all(|word| *word == 0) {
                    these
                } else {
                    left
                }
            }
        }))
    }

    /// Notes what is to be told of the id chosen next.
    pub fn note(&mut self, chosen: f32, top: Vec<(u32, f32)>) {
        self.noted = Some((chosen, top));
    }

    fn is_end(&self, tokenizer: &Tokenizer, id: u32) -> bool {
        let end = tokenizer.is_end(id) || matches!(&self.form, OutputForm::Chat(_, style) if style.is_end(id));
        self.ends.own.contains(&id) || (end && !self.ignore_ends && !self.sampler.is_banned(id))
    }

    /// Takes the next id; what there is to tell goes to `out`.
    ///
    /// # Errors
    /// An id that the constraint does not allow.
    pub fn take(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut Vec<Event>) -> Result<Next> {
        if self.limit == Some(0) {
            return Ok(Next::Over(FinishReason::Length));
        }
        let now = Instant::now();
        let first = self.times.map_or(now, |(first, _)| first);
        self.times = Some((first, now));
        let reasoning = self.is_reasoning();
        if let (Some(constraint), false) = (&mut self.constraint, reasoning) {
            constraint.accept(id)?;
        }
        self.generated += 1;
        self.reasoned += usize::from(reasoning);
        if self.is_end(tokenizer, id) {
            if let OutputForm::Chat(reply, style) = &mut self.form {
                let events = reply.push(style.visible_bytes(tokenizer, id));
                self.tell(events, out);
            }
            return Ok(Next::Over(self.natural_finish()));
        }
        self.sampler.accept(id);
        let piece = self.piece(tokenizer, id);
        self.pending.push(piece);
        let stop = self.read(tokenizer.piece(id), tokenizer, id, out);
        if let Some(stop) = stop {
            self.pending.clear();
            return Ok(Next::Over(FinishReason::Stop(stop)));
        }
        if self.constraint.as_ref().is_some_and(|c| c.is_over()) && !self.is_reasoning() {
            return Ok(Next::Over(self.natural_finish()));
        }
        let late = self.most_ms.is_some_and(|ms| self.has_new_line && (now - first).as_millis() >= u128::from(ms));
        if late || self.limit.is_some_and(|limit| self.generated >= limit) {
            return Ok(Next::Over(FinishReason::Length));
        }
        if self.is_reasoning() && self.budget.is_over(self.reasoned) {
            let (text, ids) = self.budget.close.clone();
            self.push_text(text.as_bytes(), out);
            if !self.is_reasoning() && !ids.is_empty() {
                ids.iter().for_each(|id| self.sampler.accept(*id));
                return Ok(Next::Forced(ids));
            }
        }
        Ok(Next::Goes)
    }

    /// The model ended it.
    fn natural_finish(&self) -> FinishReason {
        if self.calls > 0 {
            FinishReason::ToolCalls
        } else {
            FinishReason::End
        }
    }

    fn piece(&mut self, tokenizer: &Tokenizer, id: u32) -> GeneratedToken {
        let bytes = |id: u32| tokenizer.piece(id).to_vec();
        let logprobs = self.sampler.take_logprobs().pop();
        let top = |all: Vec<(u32, f32)>| {
            all.into_iter().map(|(id, logprob)| TokenLogprob { id, bytes: bytes(id), logprob }).collect()
        };
        let (logprob, top) = match (self.noted.take(), logprobs) {
            (Some((chosen, all)), _) => (Some(chosen), top(all)),
            (None, Some(Logprobs { logprob, top: best, .. })) => {
                (Some(logprob as f32), top(best.into_iter().map(|(id, l)| (id, l as f32)).collect()))
            }
            (None, None) => (None, Vec::new()),
        };
        GeneratedToken { id, bytes: bytes(id), logprob, top }
    }

    /// Reads a token's bytes; the text that ends the answer, if it came.
    fn read(&mut self, bytes: &[u8], tokenizer: &Tokenizer, id: u32, out: &mut Vec<Event>) -> Option<String> {
        match &mut self.form {
            OutputForm::Plain(characters, stops) => {
                let text = characters.push(bytes);
                self.has_new_line |= text.contains('\n');
                let passed = stops.push(&text);
                let stop = passed.stop.map(|stop| stops.text(stop).to_string());
                self.give(Phase::Content, passed.text, out);
                stop
            }
            OutputForm::Chat(reply, style) => {
                let events = reply.push(style.visible_bytes(tokenizer, id));
                let stop = reply.stop_text().map(str::to_string);
                self.tell(events, out);
                stop
            }
        }
    }

    /// Reads text that no token stands for.
    fn push_text(&mut self, bytes: &[u8], out: &mut Vec<Event>) {
        if let OutputForm::Chat(reply, _) = &mut self.form {
            let events = reply.push(bytes);
            self.tell(events, out);
        }
    }

    /// Tells text with the tokens that it waited for.
    fn give(&mut self, phase: Phase, text: String, out: &mut Vec<Event>) {
        self.phase = phase;
        if !text.is_empty() {
            let tokens = std::mem::take(&mut self.pending);
            out.push(Event::Piece { answer: self.number, phase, text, tokens });
        }
    }

    fn tell(&mut self, events: Vec<Read>, out: &mut Vec<Event>) {
        let answer = self.number;
        let mut in_call = false;
        for event in events {
            match event {
                Read::Content(text) => {
                    self.has_new_line |= text.contains('\n');
                    self.give(Phase::Content, text, out);
                }
                Read::Reasoning(text) => {
                    self.has_new_line |= text.contains('\n');
                    self.give(Phase::Reasoning, text, out);
                }
                Read::CallStart { index, name, id } => {
                    self.calls = self.calls.max(index + 1);
                    in_call = true;
                    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(call_name);
                    out.push(Event::CallStart { answer, call: index, name, id });
                }
                Read::CallArguments { index, delta } => {
                    in_call = true;
                    out.push(Event::CallArguments { answer, call: index, delta });
                }
                // A name was made up at the start.
                Read::CallId { .. } | Read::CallEnd { .. } => in_call = true,
            }
        }
        if in_call && !self.pending.is_empty() {
            let tokens = std::mem::take(&mut self.pending);
            self.phase = Phase::Call;
            out.push(Event::Piece { answer, phase: Phase::Call, text: String::new(), tokens });
        }
    }

    /// Tells what still waits: it is over for this reason. Gives the reason that counts.
    pub fn finish(&mut self, reason: FinishReason, out: &mut Vec<Event>) -> FinishReason {
        if !matches!(reason, FinishReason::Stop(_)) {
            match &mut self.form {
                OutputForm::Plain(characters, stops) => {
                    let mut rest = stops.push(&characters.flush()).text;
                    rest.push_str(&stops.flush());
                    self.give(Phase::Content, rest, out);
                }
                OutputForm::Chat(reply, _) => {
                    let is_cut = matches!(reason, FinishReason::Length | FinishReason::ContextFull);
                    let events = if is_cut { reply.cut() } else { reply.finish() };
                    self.tell(events, out);
                }
            }
            if !self.pending.is_empty() {
                let tokens = std::mem::take(&mut self.pending);
                out.push(Event::Piece { answer: self.number, phase: self.phase, text: String::new(), tokens });
            }
        }
        match reason {
            FinishReason::End => self.natural_finish(),
            other => other,
        }
    }
}
