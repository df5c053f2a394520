//! A model's reply while it streams: text in, what it means out.
//!
//! A [`Parser`] takes pieces of text, special tokens among them as their text, and gives [`Event`]s: content, reasoning, tool calls
//! with deltas of their arguments. It never gives half a mark as content: what may become one waits. It takes time linear in the
//! reply, whatever the reply is.

mod braces;
mod call;
mod detect;
mod format;
mod harmony;
mod json_call;
mod pairs;
mod params;
mod python;

pub use format::{Calls, Format, Kind, Names, Reasoning, Section};

use crate::json::Json;
use call::{Call, Step};
use harmony::Harmony;

/// What a piece of a reply meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// More of the answer.
    Content(String),
    /// More of the reasoning before or between answers.
    Reasoning(String),
    /// A call begins.
    CallStart {
        /// The call's number in this reply, from 0.
        index: usize,
        /// The function.
        name: String,
        /// The call's name, if the model gave one.
        id: Option<String>,
    },
    /// The name of a call that came behind its start.
    CallId {
        /// The call.
        index: usize,
        /// Its name.
        id: String,
    },
    /// More of a call's arguments: the deltas together are the text of a JSON object.
    CallArguments {
        /// The call.
        index: usize,
        /// Text.
        delta: String,
    },
    /// A call ends.
    CallEnd {
        /// The call.
        index: usize,
        /// Whether the reply had all of it. If not, the arguments may be cut off.
        complete: bool,
    },
}

/// Where pending text is searched for marks.
enum Found {
    /// Text before the mark of this number, which was taken away.
    Mark(String, usize),
    /// Text in which no mark can begin.
    Text(String),
}

/// Takes text up to the first of some marks away from `pending`; of several at one place the first listed counts.
fn until(pending: &mut String, marks: &[&str]) -> Found {
    let first = marks.iter().enumerate().filter(|(_, m)| !m.is_empty());
    let first = first.filter_map(|(i, m)| pending.find(m).map(|at| (at, i))).min();
    if let Some((at, i)) = first {
        let rest = pending.split_off(at + marks[i].len());
        let mut before = std::mem::replace(pending, rest);
        before.truncate(at);
        return Found::Mark(before, i);
    }
    let longest = marks.iter().map(|m| m.len()).max().unwrap_or(0);
    let from = pending.len().saturating_sub(longest);
    let may_begin = |at: usize| marks.iter().any(|m| m.len() > pending.len() - at && m.starts_with(&pending[at..]));
    let keep = (from..pending.len()).find(|&at| pending.is_char_boundary(at) && may_begin(at)).unwrap_or(pending.len());
    let rest = pending.split_off(keep);
    Found::Text(std::mem::replace(pending, rest))
}

/// Where the reply is.
enum State {
    /// Nothing but white space came yet.
    Start,
    Reasoning,
    Content,
    /// Within the section of calls of this number.
    Section(usize),
    Call(usize, Call),
}

/// Parses one reply.
pub struct Parser {
    format: Format,
    types: params::Types,
    state: State,
    /// Text that is not understood yet.
    pending: String,
    /// Bytes of a character that is not whole.
    partial: Vec<u8>,
    /// White space of content or reasoning that counts only if more follows.
    space: String,
    /// Calls of this reply.
    calls: usize,
    harmony: Option<Harmony>,
    events: Vec<Event>,
}

impl Parser {
    /// A parser of replies in a format. `tools`, as in a request, say which arguments are strings. `prompt` is the text that the
    /// model goes on from: it may have opened a block of reasoning already.
    pub fn new(format: &Format, tools: Option<&Json>, prompt: &str) -> Parser {
        let opened = format.reasoning.as_ref().is_some_and(|r| r.is_open_at_end(prompt));
        let harmony = matches!(format.calls, Calls::Harmony).then(|| Harmony::new(prompt));
        Parser {
            format: format.clone(),
            types: params::Types::new(tools),
            state: if opened { State::Reasoning } else { State::Start },
            pending: String::new(),
            partial: Vec::new(),
            space: String::new(),
            calls: 0,
            harmony,
            events: Vec::new(),
        }
    }

    /// Takes more of the reply: bytes that may end within a character. What is not UTF-8 becomes U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.partial.extend_from_slice(bytes);
        let mut bytes = std::mem::take(&mut self.partial);
        // At most 3 bytes at the end can be the start of a character.
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(_) => {
                let tail = (1..=3.min(bytes.len())).find(|n| bytes[bytes.len() - n] >= 0xc0);
                let cut = tail.filter(|n| bytes[bytes.len() - n].leading_ones() as usize > *n);
                bytes.len() - cut.unwrap_or(0)
            }
        };
        self.partial = bytes.split_off(whole);
        self.pending.push_str(&String::from_utf8_lossy(&bytes));
        self.run(false);
        std::mem::take(&mut self.events)
    }

    /// The reply is over: what still waits is what it is.
    pub fn finish(&mut self) -> Vec<Event> {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.pending.push('\u{fffd}');
        }
        self.run(true);
        std::mem::take(&mut self.events)
    }

    fn run(&mut self, ended: bool) {
        if let Some(harmony) = &mut self.harmony {
            harmony.run(&mut self.pending, &mut self.events, &mut self.calls, ended);
            return;
        }
        while self.step(ended) {}
        if ended {
            self.end();
        }
    }

    /// Does what can be done; false if more text is needed.
    fn step(&mut self, ended: bool) -> bool {
        match std::mem::replace(&mut self.state, State::Content) {
            State::Start => self.start(ended),
            State::Reasoning => self.reasoning(),
            State::Content => self.content(),
            State::Section(at) => self.section(at, ended),
            State::Call(at, call) => self.call(at, call),
        }
    }

    fn start(&mut self, ended: bool) -> bool {
        let text = self.pending.trim_start();
        let blank = self.pending.len() - text.len();
        if let Some(reasoning) = &self.format.reasoning {
            if text.starts_with(&reasoning.open) {
                self.pending.drain(..blank + reasoning.open.len());
                self.state = State::Reasoning;
                return true;
            }
            if reasoning.open.starts_with(text) && !ended {
                self.state = State::Start;
                return false;
            }
        }
        if text.is_empty() && !ended {
            self.state = State::Start;
            return false;
        }
        if let (Calls::Sections { bare: Some(names), .. }, true) = (&self.format.calls, text.starts_with('{')) {
            self.pending.drain(..blank);
            self.state = State::Call(0, Call::tentative(names.clone()));
            return true;
        }
        self.state = State::Content;
        true
    }

    /// Gives text, but keeps white space at its end until more comes.
    fn give(&mut self, text: &str, event: fn(String) -> Event) {
        let kept = text.trim_end().len();
        if kept > 0 {
            let mut whole = std::mem::take(&mut self.space);
            whole.push_str(&text[..kept]);
            self.events.push(event(whole));
        }
        self.space.push_str(&text[kept..]);
    }

    fn reasoning(&mut self) -> bool {
        let Some(reasoning) = &self.format.reasoning else { return true };
        let found = until(&mut self.pending, &[&reasoning.close]);
        self.state = State::Reasoning;
        match found {
            Found::Mark(text, _) => {
                self.give_inner(&text, Event::Reasoning);
                self.space.clear();
                self.state = State::Content;
                // Line ends behind the mark belong to it.
                self.space.push('\0');
                true
            }
            Found::Text(text) => {
                self.give_inner(&text, Event::Reasoning);
                false
            }
        }
    }

    /// As [`Parser::give`], where white space at the start goes, too.
    fn give_inner(&mut self, text: &str, event: fn(String) -> Event) {
        let first = self.space.is_empty() && !matches!(self.events.last(), Some(Event::Reasoning(_) | Event::Content(_)));
        let text = if first && !self.begun() { text.trim_start() } else { text };
        self.give(text, event);
    }

    fn begun(&self) -> bool {
        self.format.begun.get()
    }

    fn content(&mut self) -> bool {
        self.state = State::Content;
        let mut marks: Vec<&str> = Vec::new();
        let sections: &[Section] = match &self.format.calls {
            Calls::Sections { sections, .. } => sections,
            _ => &[],
        };
        marks.extend(sections.iter().map(|s| s.open.as_str()));
        let between = self.format.reasoning.as_ref().filter(|r| r.anywhere);
        marks.extend(between.map(|r| r.open.as_str()));
        let dropped = marks.len();
        marks.extend(self.format.dropped.iter().map(String::as_str));
        match until(&mut self.pending, &marks) {
            Found::Text(text) => {
                self.answer(&text);
                false
            }
            Found::Mark(text, i) => {
                let count = sections.len();
                self.answer(&text);
                if i < count {
                    self.space.clear();
                    self.state = State::Section(i);
                } else if i < dropped {
                    self.space.clear();
                    self.state = State::Reasoning;
                }
                true
            }
        }
    }

    /// Content, without the line ends that a mark before it left.
    fn answer(&mut self, text: &str) {
        let text = match self.space.starts_with('\0') {
            true => {
                let text = text.trim_start_matches(['\n', '\r', ' ']);
                if !text.is_empty() {
                    self.space.clear();
                }
                text
            }
            false => text,
        };
        if !text.is_empty() {
            self.give(text, Event::Content);
        }
    }

    fn section(&mut self, at: usize, ended: bool) -> bool {
        let Calls::Sections { sections, .. } = &self.format.calls else { return true };
        let section = &sections[at];
        let text = self.pending.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == ';');
        let blank = self.pending.len() - text.len();
        if !section.close.is_empty() && text.starts_with(&section.close) {
            let end = blank + section.close.len();
            self.pending.drain(..end);
            self.space.push('\0');
            self.state = State::Content;
            return true;
        }
        let mut may = !section.close.is_empty() && section.close.starts_with(text);
        for kind in &section.kinds {
            match kind.starts(text) {
                Some(true) => {
                    let call = Call::new(kind, &section.close);
                    self.pending.drain(..blank);
                    self.state = State::Call(at, call);
                    return true;
                }
                Some(false) => (),
                None => may = true,
            }
        }
        if may && !ended {
            self.state = State::Section(at);
            return false;
        }
        // Not a call after all.
        if ended && text.is_empty() {
            self.pending.clear();
            return true;
        }
        let open = if section.close.is_empty() && self.calls > 0 { String::new() } else { section.open.clone() };
        self.state = State::Content;
        if section.quiet {
            self.pending.drain(..blank);
        } else if !open.is_empty() {
            self.give(&open, Event::Content);
        }
        true
    }

    fn call(&mut self, at: usize, mut call: Call) -> bool {
        let step = call.run(&mut self.pending, self.calls, &self.types, &mut self.events);
        match step {
            Step::More => {
                self.state = State::Call(at, call);
                false
            }
            Step::Done => {
                self.calls += 1;
                self.state = if call.bare() { State::Start } else { State::Section(at) };
                true
            }
            Step::NotOne(text) => {
                self.give(&text, Event::Content);
                self.state = State::Content;
                true
            }
        }
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.state, State::Content) {
            State::Call(_, mut call) => {
                if let Some(text) = call.cut_off(&mut self.pending, self.calls, &self.types, &mut self.events) {
                    self.give(&text, Event::Content);
                }
            }
            State::Reasoning => {
                let rest = std::mem::take(&mut self.pending);
                self.give(&rest, Event::Reasoning);
            }
            _ => {
                let rest = std::mem::take(&mut self.pending);
                self.answer(&rest);
                let space = std::mem::take(&mut self.space);
                if !space.is_empty() && !space.starts_with('\0') {
                    self.events.push(Event::Content(space));
                }
            }
        }
        self.pending.clear();
        self.space.clear();
    }
}
