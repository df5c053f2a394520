//! What a conversation shows: answers on stdout, all else on stderr.
//!
//! Control characters of an answer reach no terminal: a model's text must not move its cursor or set its title.

use std::io::{IsTerminal, Write};

use pumex_dialogue::Answer;
use pumex_gguf::Result;
use pumex_text::chat::reply::Event;

use super::super::output;
use super::waiting::Waiting;
use super::word_wrap::WordWrap;

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// What was written last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Content,
    Reasoning,
    Call,
}

/// Where answers go.
pub struct Screen {
    colours: bool,
    /// Whether stdout is a terminal, and stderr.
    terminals: (bool, bool),
    /// Whether nothing is written but by the caller.
    silent: bool,
    /// Whether reasoning is shown.
    pub reasoning: bool,
    last: Last,
    line_ended: bool,
    waiting: Option<Waiting>,
    /// How the lines of what is written now are broken.
    wrap: WordWrap,
}

/// Columns of a terminal; 0 where they are not known.
fn columns(terminal: &console::Term) -> usize {
    terminal.size_checked().map_or(0, |(_, columns)| usize::from(columns))
}

/// Text without control characters but line ends and tabs.
pub fn safe(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(visible).collect()
}

impl Screen {
    /// `colours`: on, off, or where stderr is a terminal.
    pub fn new(colours: Option<bool>, silent: bool) -> Screen {
        let terminals = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let colours = colours.unwrap_or(terminals.1);
        Screen {
            colours,
            terminals,
            silent,
            reasoning: terminals.1,
            last: Last::Nothing,
            line_ended: true,
            waiting: None,
            wrap: WordWrap::default(),
        }
    }

    /// What of a text is shown now where stdout, or stderr, is a terminal: lines are broken between words there.
    fn wrap(&mut self, text: &str, (is_terminal, terminal): (bool, console::Term)) -> String {
        match is_terminal {
            true => self.wrap.push(&safe(text), columns(&terminal)),
            false => text.into(),
        }
    }

    /// Shows what was held back of the last word.
    fn end_word(&mut self) -> Result<()> {
        let mut wrap = std::mem::take(&mut self.wrap);
        match self.last {
            Last::Content => output::text(&wrap.flush(columns(&console::Term::stdout()))),
            _ => {
                let rest = wrap.flush(columns(&console::Term::stderr()));
                if !rest.is_empty() {
                    self.dim(&rest);
                }
                Ok(())
            }
        }
    }

    /// Whether colours are used.
    pub fn colours(&self) -> bool {
        self.colours
    }

    /// Whether a person looks at stderr.
    pub fn is_watched(&self) -> bool {
        self.terminals.1
    }

    fn dim(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // If nobody listens, nothing is lost.
        let _ = match self.colours {
            true => write!(err, "{DIM}{text}{PLAIN}"),
            false => write!(err, "{text}"),
        };
    }

    /// A line about the conversation.
    pub fn note(&self, text: &str) {
        if !self.silent {
            self.dim(text);
            output::say(format_args!("\n"));
        }
    }

    /// Lines that were asked for.
    pub fn lines(&self, text: &str) {
        output::say(format_args!("{}", safe(text)));
    }

    fn begin(&mut self, what: Last) -> Result<()> {
        if self.last != what && self.last != Last::Nothing {
            self.end_word()?;
            let gap = match (self.line_ended, self.last) {
                (false, Last::Reasoning) => "\n\n",
                (false, _) => "\n",
                (true, _) => "",
            };
            match self.last {
                Last::Content => output::text(gap)?,
                _ => output::say(format_args!("{gap}")),
            }
            self.line_ended = true;
        }
        self.last = what;
        Ok(())
    }

    /// An answer is to come, which a person is told if it takes long: gives whom to tell how much of the prompt is fed.
    pub fn wait(&mut self) -> Option<impl FnMut(usize, usize) + 'static> {
        self.waiting = (self.is_watched() && !self.silent).then(Waiting::new);
        self.waiting.as_ref().map(Waiting::reader)
    }

    /// Shows a part of an answer.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn event(&mut self, event: &Event) -> Result<()> {
        if self.silent {
            return Ok(());
        }
        match (&self.waiting, event) {
            (Some(waiting), Event::Reasoning(_)) if !self.reasoning => waiting.say("reasoning"),
            _ => self.waiting = None,
        }
        match event {
            Event::Content(text) => {
                self.begin(Last::Content)?;
                let shown = self.wrap(text, (self.terminals.0, console::Term::stdout()));
                output::text(&shown)?;
                self.line_ended = text.ends_with('\n');
            }
            Event::Reasoning(text) if self.reasoning => {
                self.begin(Last::Reasoning)?;
                let shown = self.wrap(&safe(text), (self.terminals.1, console::Term::stderr()));
                if !shown.is_empty() {
                    self.dim(&shown);
                }
                self.line_ended = text.ends_with('\n');
            }
            Event::CallStart { name, .. } => {
                self.begin(Last::Call)?;
                output::say(format_args!("call of {} with ", safe(name)));
                self.line_ended = false;
            }
            Event::CallArguments { delta, .. } => output::say(format_args!("{}", safe(delta))),
            Event::CallEnd { complete, .. } => {
                output::say(format_args!("{}\n", if *complete { "" } else { " (cut off)" }));
                self.line_ended = true;
            }
            Event::Reasoning(_) | Event::CallId { .. } => (),
        }
        Ok(())
    }

    /// An answer is over.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn end(&mut self) -> Result<()> {
        self.waiting = None;
        self.end_word()?;
        let (last, ended) = (self.last, self.line_ended);
        (self.last, self.line_ended) = (Last::Nothing, true);
        match last {
            Last::Content if !ended => output::text("\n"),
            Last::Reasoning | Last::Call if !ended => {
                output::say(format_args!("\n"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How fast an answer came, and what it left of the context.
    pub fn status(&self, answer: &Answer, n_ctx: usize) {
        let rate = |tokens: usize, ms: f64| if ms > 0.0 { tokens as f64 / ms * 1e3 } else { 0.0 };
        let prompt = rate(answer.fed.0, answer.ms.0);
        // The first token comes with the prompt's end.
        let speed = rate(answer.generated.saturating_sub(1), answer.ms.1);
        self.note(&format!(
            "[{} tokens, {speed:.1} t/s; prompt {} new of {}, {prompt:.1} t/s; context {} of {n_ctx}]",
            answer.generated, answer.fed.0, answer.fed.1, answer.held,
        ));
    }
}
