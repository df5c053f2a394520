//! `pumex run` with an instruct model: a conversation on the terminal, or over pipes.
//!
//! stdout gets the answers; prompts, reasoning, calls, status and notes go to stderr. Commands begin with `/`.

mod args;
mod calls;
mod commands;
mod compose;
mod dropped;
mod environment;
mod input;
mod media;
mod opening;
mod saved;
mod screen;
mod settings;
pub mod waiting;
mod word_wrap;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pumex_dialogue::grammar::{GrammarMask, GrammarSource, ToolChoice};
use pumex_dialogue::projector::MARK;
use pumex_dialogue::{vocabulary, Answer, AnswerEnd, AnswerOptions, Message, NoReasoning, Speaker, Style, Talk};
use pumex_engine::conversation::{Constraint, Feed};
use pumex_gguf::{Error, Result};
use pumex_step::sample::{Breakers, SamplerOptions, Step};
use pumex_text::chat::{Json, RenderedPrompt};
use pumex_text::Tokenizer;
use serde_json::json;

use super::{output, sampler_values, sampling, signals, CommandEnd};
pub use args::ChatArgs;
use calls::Within;
use commands::Command;
use input::{MessageSource, Read};
pub use media::ChatMedia;
pub use opening::{opening, Opening};
use screen::Screen;
use settings::{ChatSettings, Reasoning};

/// What `run` gives a conversation beside its own options.
pub struct ChatSetup<'a> {
    /// Options.
    pub args: &'a ChatArgs,
    /// Name of the model, for people.
    pub model: String,
    /// Most tokens of an answer.
    pub predict: i64,
    /// Texts that end one.
    pub stops: &'a [String],
    /// Whether end tokens are none.
    pub ignore_ends: bool,
    /// Texts that end repetitions for DRY.
    pub breakers: Vec<String>,
    /// What every answer is within, but for its reasoning.
    pub source: Option<GrammarSource>,
    /// Whether answers are printed as JSON.
    pub json: bool,
    /// The projector of pictures and sounds, if there is one.
    pub media: Option<ChatMedia>,
    /// Raised by Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// A conversation that is read, for a model's vocabulary.
pub struct OpenedChat {
    opening: Opening,
    style: Style,
    within: Within,
}

impl OpenedChat {
    /// Reads it.
    ///
    /// # Errors
    /// A template that cannot be used; a grammar that is wrong; calls that cannot be forced.
    pub fn new(opening: Opening, args: &ChatArgs, text: &Tokenizer, source: Option<&GrammarSource>) -> Result<Self> {
        let style = opening.style(text)?;
        let within = Within::new(&style, text, source, &choice(args))?;
        Ok(OpenedChat { opening, style, within })
    }
}

struct Chat<'a> {
    given: ChatSetup<'a>,
    speaker: Speaker<'a>,
    style: Style,
    /// The template's variables that the user gave.
    variables: Vec<(String, Json)>,
    talk: Talk,
    within: Within,
    /// Turns that the model does not see any more.
    hidden: usize,
    settings: ChatSettings,
    /// What DRY knows of the texts that end repetitions, once it is on.
    breakers: Option<(Vec<String>, Arc<Breakers>)>,
    /// Whether reasoning is ended as soon as it begins, as the template cannot be asked for none.
    cut: bool,
    /// Answers that were given anew.
    regenerated: u64,
    /// Text of files for the next message.
    attached: String,
    screen: Screen,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Then {
    Next,
    Leave,
}

/// Holds the conversation.
///
/// # Errors
/// stdin or stdout that failed. In a conversation of one turn, what kept it from being answered.
pub fn converse<'a>(begun: OpenedChat, given: ChatSetup<'a>, speaker: Speaker<'a>) -> Result<CommandEnd> {
    let OpenedChat { opening, style, within } = begun;
    let args = given.args;
    let settings = ChatSettings {
        sampling: speaker.sampler.given_options().clone(),
        breakers: given.breakers.clone(),
        ignore_eos: given.ignore_ends,
        predict: given.predict,
        reasoning: args.reasoning,
        budget: args.reasoning_budget,
        effort: args.reasoning_effort.clone(),
    };
    let known =
        settings.sampling.dry.is_active().then(|| (given.breakers.clone(), settings.sampling.dry.breakers.clone()));
    let mut talk = Talk::default();
    talk.set_system(opening.system.as_deref().unwrap_or_default());
    let colours = match args.color {
        super::options::Switch::On => Some(true),
        super::options::Switch::Off => Some(false),
        super::options::Switch::Auto => environment::without_colours().then_some(false),
    };
    let screen = Screen::new(colours, given.json);
    let variables = opening.variables.clone();
    let mut chat = Chat {
        given,
        speaker,
        style,
        variables,
        talk,
        within,
        hidden: 0,
        settings,
        breakers: known,
        cut: false,
        regenerated: 0,
        attached: String::new(),
        screen,
    };
    chat.apply();
    chat.check_tools();
    chat.check_effort();
    chat.run(opening.first)
}

impl Chat<'_> {
    fn run(&mut self, first: Option<String>) -> Result<CommandEnd> {
        let args = self.given.args;
        let single = args.single_turn;
        let by_hand = std::io::stdin().is_terminal() && !single;
        if by_hand {
            signals::is_conversation();
            let device = self.speaker.runner().device();
            self.screen.note(&format!("{} on {device}. /help lists commands, Ctrl-D leaves.", self.given.model));
        }
        if let Some(text) = first {
            if self.screen.is_watched() && !single {
                self.screen.lines(&format!("> {text}\n"));
            }
            let text = self.with_media(text)?;
            self.talk.push(Message::new("user", text));
            self.answer(single)?;
            if single {
                return Ok(self.command_end());
            }
        }
        let history = (!args.no_history).then(environment::history).flatten();
        let mut input = MessageSource::open(args.multiline_input, self.screen.colours(), history)?;
        let mut leaving = false;
        // While a line is typed nothing sees the flag that SIGTERM raises.
        let waiting = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGTERM, 130, Arc::clone(&waiting))
            .map_err(|e| Error::Request(format!("cannot listen for SIGTERM: {e}")))?;
        loop {
            let prompt = match self.talk.open_call() {
                Some(call) => format!("result of {}> ", screen::safe(&call.function.name)),
                None => "> ".to_string(),
            };
            self.given.stop.store(false, Ordering::Relaxed);
            waiting.store(true, Ordering::Relaxed);
            let read = input.read(&prompt);
            waiting.store(false, Ordering::Relaxed);
            let typed = match read? {
                Read::End => {
                    if input.is_terminal() {
                        output::say(format_args!("\n"));
                    }
                    return Ok(CommandEnd::Done);
                }
                Read::Interrupted { empty: true } if leaving => return Ok(CommandEnd::Interrupted),
                Read::Interrupted { empty } => {
                    leaving = empty;
                    if empty {
                        self.screen.note("Ctrl-C once more or Ctrl-D leaves.");
                    }
                    continue;
                }
                Read::Message(text) => text,
            };
            leaving = false;
            if input.is_terminal() && self.take_dropped(&typed) {
                continue;
            }
            let then = match commands::parse(&typed) {
                Some(Ok(command)) => self.command(command)?,
                Some(Err(what)) => {
                    self.screen.lines(&format!("{what}\n"));
                    Then::Next
                }
                None if typed.trim().is_empty() => Then::Next,
                None => {
                    self.message(&typed)?;
                    let stopped = !by_hand && self.given.stop.load(Ordering::Relaxed);
                    if stopped || (single && self.talk.open_call().is_none()) {
                        return Ok(self.command_end());
                    }
                    Then::Next
                }
            };
            if then == Then::Leave {
                return Ok(CommandEnd::Done);
            }
        }
    }

    fn command_end(&self) -> CommandEnd {
        match self.given.stop.load(Ordering::Relaxed) {
            true => CommandEnd::Interrupted,
            false => CommandEnd::Done,
        }
    }

    /// Takes a message of the user, or the result of a call, and answers.
    fn message(&mut self, typed: &str) -> Result<()> {
        let text = std::mem::take(&mut self.attached) + typed.trim_end();
        let text = match self.with_media(text) {
            Ok(text) => text,
            Err(error) => {
                self.screen.lines(&format!("error: {error}\n"));
                return Ok(());
            }
        };
        if !self.talk.answer_call(&text) {
            self.talk.push(Message::new("user", text));
        }
        match self.talk.open_call() {
            Some(_) => Ok(()), // more results first
            None => self.answer(self.given.args.single_turn),
        }
    }

    /// The chain that settings ask for, with what it needs of the vocabulary.
    fn chain(&mut self, settings: &ChatSettings) -> std::result::Result<SamplerOptions, String> {
        let tokenizer = &self.speaker.tokenizer;
        let mut chain = settings.sampling.clone();
        sampling::check_biases(&chain.bias, tokenizer).map_err(|what| format!("logit-bias: {what}"))?;
        chain.banned = if settings.ignore_eos { vocabulary::ends(tokenizer) } else { Vec::new() };
        if chain.order.contains(&Step::Infill) && chain.words.is_none() {
            chain.words = Some(Arc::new(vocabulary::words(tokenizer)));
        }
        if chain.dry.is_active() {
            let texts = &settings.breakers;
            let fresh = || (texts.clone(), Arc::new(vocabulary::breakers(texts, tokenizer)));
            let known = self.breakers.take().filter(|known| known.0 == *texts).unwrap_or_else(fresh);
            chain.dry.breakers = self.breakers.insert(known).1.clone();
        }
        Ok(chain)
    }

    /// Has other settings from now on; on an error all is as it was.
    fn adopt(&mut self, mut settings: ChatSettings) -> std::result::Result<(), String> {
        settings.sampling = self.chain(&settings)?;
        self.settings = settings;
        self.apply();
        Ok(())
    }

    /// Brings settings to where they count.
    fn apply(&mut self) {
        self.speaker.sampler.change(self.settings.sampling.clone());
        self.screen.reasoning = self.screen.is_watched() && self.settings.reasoning != Reasoning::Hide;
        self.style.variables.clone_from(&self.variables);
        self.cut = false;
        if self.settings.effort != settings::AUTO && self.settings.reasoning != Reasoning::Off {
            self.style.with_effort(&self.settings.effort);
        }
        match self.settings.reasoning {
            Reasoning::On => self.style.with_reasoning(),
            Reasoning::Off => self.cut = self.style.without_reasoning() == NoReasoning::ByBudget,
            _ => (),
        }
    }

    /// Says so where an effort of reasoning is asked for and the template does not read it.
    fn check_effort(&self) {
        if self.settings.effort != settings::AUTO && !self.style.asks_effort() {
            output::say(format_args!(
                "warning: reasoning-effort: the chat template of this model has no place for it\n"
            ));
        }
    }

    /// Says so where functions are given and the template leaves them out.
    fn check_tools(&mut self) {
        let talk = [Message::new("user", "u")];
        let Some(tools) = self.style.tools.clone() else { return };
        let with = self.style.prompt(&talk);
        self.style.tools = None;
        let without = self.style.prompt(&talk);
        self.style.tools = Some(tools);
        if let (Ok(with), Ok(without)) = (with, without) {
            if with.text == without.text {
                output::say(format_args!(
                    "warning: --tools: the chat template of this model has no place for functions\n"
                ));
            }
        }
    }

    /// The messages that the model sees.
    fn view(&self) -> Talk {
        let mut view = self.talk.clone();
        for _ in 0..self.hidden {
            view.drop_oldest();
        }
        view
    }

    fn prompt(&self, talk: &Talk) -> Result<(RenderedPrompt, Feed)> {
        let prompt = self.style.prompt(talk.messages())?;
        let feed = match &self.given.media {
            Some(media) if prompt.text.contains(MARK) => media.feed(&self.speaker.tokenizer, &prompt)?,
            _ => Feed { ids: self.style.ids(&self.speaker.tokenizer, &prompt)?, ..Feed::default() },
        };
        Ok((prompt, feed))
    }

    /// A prompt with room for an answer; old turns go for it.
    fn fitting(&mut self) -> Result<(RenderedPrompt, Feed)> {
        let n_ctx = self.speaker.runner().n_ctx();
        let room = usize::try_from(self.settings.predict).map_or(n_ctx / 4, |n| n.clamp(1, n_ctx / 4));
        let mut view = self.view();
        if let Some(media) = &mut self.given.media {
            media.follow(&self.talk);
        }
        let (mut prompt, mut feed) = self.prompt(&view)?;
        let whole = feed.ids.len();
        let mut dropped = 0;
        // Some more than needed goes, so that not every turn moves all that follows.
        while feed.ids.len() + if dropped == 0 { room } else { n_ctx / 2 } > n_ctx
            && !self.given.args.no_context_shift
            && view.drop_oldest()
        {
            dropped += 1;
            (prompt, feed) = self.prompt(&view)?;
        }
        if dropped > 0 {
            self.hidden += dropped;
            let hidden = self.hidden;
            self.screen.note(&format!(
                "[the context of {n_ctx} tokens is full: the model no longer sees the oldest {hidden} turns]"
            ));
        }
        if feed.ids.len() >= n_ctx {
            return Err(Error::Request(format!(
                "the conversation needs {whole} tokens, the context has {n_ctx}: /undo, /clear, or start with -c {}",
                (whole + n_ctx / 4).next_multiple_of(1024)
            )));
        }
        Ok((prompt, feed))
    }

    /// Has the model answer what was said; what cannot be answered is taken back.
    fn answer(&mut self, strict: bool) -> Result<()> {
        let answer = match self.try_answer() {
            Ok(answer) => answer,
            Err(error @ Error::Request(_)) if !strict => {
                self.screen.end()?;
                output::say(format_args!("error: {error}\n"));
                self.talk.undo();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.screen.end()?;
        let n_ctx = self.speaker.runner().n_ctx();
        if self.given.json {
            output::json(&report(&answer, n_ctx))?;
        }
        let message = answer.message.clone();
        let empty = message.content.is_empty() && message.reasoning_content.is_none() && message.tool_calls.is_empty();
        if empty && answer.end == AnswerEnd::Interrupted {
            self.talk.undo();
            self.screen.note("[stopped; the message is taken back]");
            return Ok(());
        }
        self.talk.push(message);
        match answer.end {
            AnswerEnd::Interrupted => self.screen.note("[stopped]"),
            AnswerEnd::Limit => self.screen.note("[cut off after the tokens that -n or /set predict allow]"),
            AnswerEnd::ContextFull => self.screen.note(&format!(
                "[cut off: the context of {n_ctx} tokens is full; -c N has more, --context-shift goes on without the oldest]"
            )),
            AnswerEnd::Turn | AnswerEnd::Text => (),
        }
        if answer.shifts > 0 {
            self.screen.note(&format!("[the context was full {} times; the oldest of it was left out]", answer.shifts));
        }
        self.screen.status(&answer, n_ctx);
        Ok(())
    }

    fn try_answer(&mut self) -> Result<Answer> {
        let (prompt, feed) = self.fitting()?;
        self.speaker.know(feed.media.iter().map(|(_, medium)| medium.clone()).collect());
        let ids = feed.ids;
        let args = self.given.args;
        let opening = || self.style.count_opening_ids(&self.speaker.tokenizer, self.view().messages());
        let usual = if args.context_shift { opening().min(self.speaker.runner().n_ctx() / 2) } else { 0 };
        let asked = AnswerOptions {
            predict: self.settings.predict,
            budget: if self.cut { Some(0) } else { usize::try_from(self.settings.budget).ok() },
            stops: self.given.stops,
            keep: args.context_keep(ids.len(), usual),
            ignore_ends: self.settings.ignore_eos,
            stop: self.given.stop,
        };
        if let Some(told) = self.screen.wait() {
            self.speaker.watch_prompts(Box::new(told));
        }
        let screen = &mut self.screen;
        let to_results = self.talk.messages().last().is_some_and(|message| message.role == "tool");
        let mut constrained = self.within.matcher(to_results).map(GrammarMask::new);
        let constraint = constrained.as_mut().map(|c| c as &mut dyn Constraint);
        self.speaker.answer(&self.style, (&prompt, ids), (&asked, constraint), &mut |event| screen.event(event))
    }

    fn command(&mut self, command: Command) -> Result<Then> {
        let said = match command {
            Command::Exit => return Ok(Then::Leave),
            Command::Help => Ok(commands::help()),
            Command::Clear => {
                self.talk.clear();
                self.given.media.iter_mut().for_each(ChatMedia::clear);
                (self.hidden, self.attached) = (0, String::new());
                Ok("forgotten\n".to_string())
            }
            Command::Undo => match self.talk.undo() {
                Some(text) => {
                    self.hidden = self.hidden.min(self.talk.turns().saturating_sub(1));
                    let line: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
                    Ok(format!("taken back: {line}\n"))
                }
                None => Err("there is no message to take back".to_string()),
            },
            Command::Regen if self.talk.retry() => {
                self.regenerate();
                self.answer(false)?;
                Ok(String::new())
            }
            Command::Regen => Err("there is no answer to give anew".to_string()),
            Command::System(None) => Ok(match self.talk.system() {
                Some(text) => format!("{text}\n"),
                None => "there is no system message\n".to_string(),
            }),
            Command::System(Some(text)) => {
                self.talk.set_system(if text == "\"\"" { "" } else { &text });
                Ok("the system message is set\n".to_string())
            }
            Command::Tool(text) if self.talk.open_call().is_some() => {
                self.message(&text)?;
                Ok(String::new())
            }
            Command::Tool(_) => Err("the model has called no tool".to_string()),
            Command::Set(None) => self.settings.show(None),
            Command::Set(Some((name, None))) => self.settings.show(Some(&name)),
            Command::Set(Some((name, Some(value)))) => self.set(&name, &value).map(|()| String::new()),
            Command::Read(path) => self.read(Path::new(&path)).map_err(|e| e.to_string()),
            Command::Image(path) => self.attach(&dropped::file(&path), true).map_err(|e| e.to_string()),
            Command::Audio(path) => self.attach(&dropped::file(&path), false).map_err(|e| e.to_string()),
            Command::Save(path) => self.save(Path::new(&path)).map_err(|e| e.to_string()),
            Command::Load(path) => self.load(Path::new(&path)).map_err(|e| e.to_string()),
            Command::Tokens => self.tokens().map_err(|e| e.to_string()),
        };
        match said {
            Ok(text) => self.screen.lines(&text),
            Err(what) => self.screen.lines(&format!("{what}\n")),
        }
        Ok(Then::Next)
    }

    /// Draws the next answer anew: the n-th time in a run always alike for one seed.
    fn regenerate(&mut self) {
        self.regenerated += 1;
        let (n, sampler) = (self.regenerated, &mut self.speaker.sampler);
        sampler.redraw(n);
        let note = match sampler.options().is_greedy() {
            true => "[once more; at temperature 0 the answer to the same prompt is the same]".to_string(),
            false => format!("[once more, draw {n} of seed {}]", sampler.seed()),
        };
        self.screen.note(&note);
    }

    fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        let mut settings = self.settings.clone();
        settings.change(name, value)?;
        self.adopt(settings)?;
        if name == "reasoning-effort" {
            self.check_effort();
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<String> {
        let text = super::prompt_source::read_file(path)?;
        let said = format!("{} characters of {} go before the next message\n", text.chars().count(), path.display());
        self.attached.push_str(&text);
        self.attached.push_str("\n\n");
        Ok(said)
    }

    fn tokens(&self) -> Result<String> {
        let n_ctx = self.speaker.runner().n_ctx();
        let (view, shown) = (self.view(), self.talk.turns());
        let used = if view.turns() == 0 { 0 } else { self.prompt(&view)?.1.ids.len() };
        let share = used as f64 / n_ctx.max(1) as f64 * 100.0;
        let hidden = if self.hidden > 0 { format!(", the oldest {} not seen", self.hidden) } else { String::new() };
        Ok(format!("{used} of {n_ctx} tokens ({share:.0} %) in {shown} turns{hidden}\n"))
    }
}

fn choice(args: &ChatArgs) -> ToolChoice {
    args.tool_choice.clone().unwrap_or_default()
}

fn report(answer: &Answer, n_ctx: usize) -> serde_json::Value {
    json!({
        "message": answer.message,
        "stop": answer.end,
        "prompt_tokens": answer.fed.1,
        "prompt_tokens_fed": answer.fed.0,
        "generated_tokens": answer.generated,
        "prompt_ms": answer.ms.0,
        "generate_ms": answer.ms.1,
        "context_used": answer.held,
        "context": n_ctx,
    })
}
