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
mod tags;

pub use format::{CallNotation, Calls, Format, Names, Reasoning, Section};

use crate::json::Json;
use call::{Call, CallStep};
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
enum MarkSearch {
    /// Text before the mark of this number, which was taken away.
    Mark(String, usize),
    /// Text in which no mark can begin.
    Text(String),
}

/// Takes text up to the first of some marks away from `pending`; of several at one place the first listed counts.
fn until(pending: &mut String, marks: &[&str]) -> MarkSearch {
    let first = marks.iter().enumerate().filter(|(_, m)| !m.is_empty());
    let first = first.filter_map(|(i, m)| pending.find(m).map(|at| (at, i))).min();
    if let Some((at, i)) = first {
        let rest = pending.split_off(at + marks[i].len());
        let mut before = std::mem::replace(pending, rest);
        before.truncate(at);
        return MarkSearch::Mark(before, i);
    }
    let longest = marks.iter().map(|m| m.len()).max().unwrap_or(0);
    let from = pending.len().saturating_sub(longest);
    let may_begin = |at: usize| marks.iter().any(|m| m.len() > pending.len() - at && m.starts_with(&pending[at..]));
    let keep = (from..pending.len()).find(|&at| pending.is_char_boundary(at) && may_begin(at)).unwrap_or(pending.len());
    let rest = pending.split_off(keep);
    MarkSearch::Text(std::mem::replace(pending, rest))
}

/// Where the reply is.
enum ReplyState {
    /// Nothing but white space came yet.
    Start,
    Reasoning,
    Content,
    /// Within the section of calls of this number.
    Section(usize),
    Call(usize, Box<Call>),
}

/// Parses one reply.
pub struct Parser {
    format: Format,
    types: params::Types,
    state: ReplyState,
    /// Text that is not understood yet.
    pending: String,
    /// Bytes of a character that is not whole.
    partial: Vec<u8>,
    /// White space of content or reasoning that counts only if more follows.
    space: String,
    /// Whether white space goes until text comes: behind marks, and before reasoning.
    skip: bool,
    /// Calls of the present section.
    in_section: usize,
    /// White space between the section's mark and what follows.
    between: String,
    /// Calls of this reply.
    calls: usize,
    harmony: Option<Harmony>,
    /// Whether the reply must call something, and whether it was cut off.
    must_call: bool,
    is_cut: bool,
    events: Vec<Event>,
}

impl Parser {
    /// A parser of replies in a format. `tools`, as in a request, say which arguments are strings. `prompt` is the text that the
    /// model goes on from: it may have opened a block of reasoning already.
    pub fn new(format: &Format, tools: Option<&Json>, prompt: &str) -> Parser {
        let sections = match &format.calls {
            Calls::Sections { sections, .. } => &sections[..],
            _ => &[],
        };
        let in_section = sections.iter().position(|s| prompt.ends_with(&s.open));
        let opened = format.reasoning.as_ref().is_some_and(|r| r.is_open_at_end(prompt));
        let harmony = matches!(format.calls, Calls::Harmony).then(|| Harmony::new(prompt));
        Parser {
            format: format.clone(),
            types: params::Types::new(tools),
            state: match in_section {
                _ if opened => ReplyState::Reasoning,
                Some(at) => ReplyState::Section(at),
                None => ReplyState::Start,
            },
            pending: String::new(),
            partial: Vec::new(),
            space: String::new(),
            skip: opened || in_section.is_some(),
            in_section: 0,
            between: String::new(),
            calls: 0,
            harmony,
            must_call: false,
            is_cut: false,
            events: Vec::new(),
        }
    }

    /// This parser, for a reply that must call a function.
    pub fn must_call(self) -> Parser {
        Parser { must_call: true, ..self }
    }

    /// The reply was cut off: as [`Parser::finish`], but what may be the beginning of a call is no content.
    pub fn cut(&mut self) -> Vec<Event> {
        self.is_cut = true;
        self.finish()
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

    /// Whether what comes next is reasoning, unless its mark ends it.
    pub fn is_reasoning(&self) -> bool {
        match &self.harmony {
            Some(harmony) => harmony.is_reasoning(),
            None => matches!(self.state, ReplyState::Reasoning),
        }
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
        match std::mem::replace(&mut self.state, ReplyState::Content) {
            ReplyState::Start => self.start(ended),
            ReplyState::Reasoning => self.reasoning(),
            ReplyState::Content => self.content(),
            ReplyState::Section(at) => self.section(at, ended),
            ReplyState::Call(at, call) => self.call(at, call),
        }
    }

    fn start(&mut self, ended: bool) -> bool {
        let blank = self.pending.len() - self.pending.trim_start().len();
        self.space.extend(self.pending.drain(..blank));
        if let Some(reasoning) = &self.format.reasoning {
            if self.pending.starts_with(&reasoning.open) {
                self.pending.drain(..reasoning.open.len());
                self.behind_mark(ReplyState::Reasoning);
                return true;
            }
            if reasoning.open.starts_with(&self.pending) && !ended {
                self.state = ReplyState::Start;
                return false;
            }
        }
        if self.pending.is_empty() && !ended {
            self.state = ReplyState::Start;
            return false;
        }
        match &self.format.calls {
            Calls::Sections { bare: Some(names), .. } if self.pending.starts_with('{') => {
                self.state = ReplyState::Call(0, Box::new(Call::tentative(names.clone())));
            }
            _ => self.state = ReplyState::Content,
        }
        true
    }

    /// Gives text, but keeps white space at its end until more comes.
    fn give(&mut self, text: &str, event: fn(String) -> Event) {
        let text = if self.skip { text.trim_start() } else { text };
        let kept = text.trim_end().len();
        if kept > 0 {
            self.skip = false;
            let mut whole = std::mem::take(&mut self.space);
            whole.push_str(&text[..kept]);
            self.events.push(event(whole));
        }
        self.space.push_str(&text[kept..]);
    }

    /// Goes on behind a mark.
    fn behind_mark(&mut self, state: ReplyState) {
        self.space.clear();
        self.skip = true;
        self.state = state;
    }

    fn reasoning(&mut self) -> bool {
        self.state = ReplyState::Reasoning;
        let close = self.format.reasoning.as_ref().map_or("", |r| &r.close);
        match until(&mut self.pending, &[close]) {
            MarkSearch::Mark(text, _) => {
                self.give(&text, Event::Reasoning);
                self.behind_mark(ReplyState::Content);
                true
            }
            MarkSearch::Text(text) => {
                self.give(&text, Event::Reasoning);
                false
            }
        }
    }

    fn content(&mut self) -> bool {
        self.state = ReplyState::Content;
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
            MarkSearch::Text(text) => {
                self.give(&text, Event::Content);
                false
            }
            MarkSearch::Mark(text, i) => {
                let count = sections.len();
                self.give(&text, Event::Content);
                if i < count {
                    // Space before calls is not content; it is, if there are none.
                    self.in_section = 0;
                    self.between.clear();
                    self.state = ReplyState::Section(i);
                } else if i < dropped {
                    self.behind_mark(ReplyState::Reasoning);
                } else {
                    self.behind_mark(ReplyState::Content);
                }
                true
            }
        }
    }

    fn section(&mut self, at: usize, ended: bool) -> bool {
        let Calls::Sections { sections, .. } = &self.format.calls else { return true };
        let section = &sections[at];
        let text = self.pending.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == ';');
        let blank = self.pending.len() - text.len();
        self.between.extend(self.pending.drain(..blank));
        let text = self.pending.as_str();
        if !section.close.is_empty() && text.starts_with(&section.close) {
            self.pending.drain(..section.close.len());
            self.behind_mark(ReplyState::Content);
            return true;
        }
        let mut may = !section.close.is_empty() && section.close.starts_with(text);
        for kind in &section.kinds {
            match kind.starts(text) {
                Some(true) => {
                    self.state = ReplyState::Call(at, Box::new(Call::new(kind, &section.close)));
                    return true;
                }
                Some(false) => (),
                None => may = true,
            }
        }
        if may && !ended {
            self.state = ReplyState::Section(at);
            return false;
        }
        if may && self.is_cut {
            self.state = ReplyState::Content;
            self.pending.clear();
            return true;
        }
        // Not a call after all.
        self.state = ReplyState::Content;
        self.show_mark(at);
        true
    }

    /// Gives a section's mark as content, if there was no call in it and a reader should see the mark.
    fn show_mark(&mut self, at: usize) {
        let Calls::Sections { sections, .. } = &self.format.calls else { return };
        let shown = sections.get(at).filter(|s| !s.quiet && self.in_section == 0);
        let text = shown.map(|s| format!("{}{}", s.open, self.between)).unwrap_or_default();
        self.skip &= text.is_empty();
        self.give(&text, Event::Content);
    }

    fn call(&mut self, at: usize, mut call: Box<Call>) -> bool {
        let step = call.run(&mut self.pending, self.calls, &self.types, &mut self.events);
        match step {
            CallStep::More => {
                self.state = ReplyState::Call(at, call);
                false
            }
            CallStep::Done => {
                self.calls += call.count();
                self.in_section += call.count();
                self.skip = false;
                self.space.clear();
                self.state = if call.bare() { ReplyState::Start } else { ReplyState::Section(at) };
                true
            }
            CallStep::NotOne(text) => {
                self.state = ReplyState::Content;
                self.not_one(at, &call, &text);
                true
            }
        }
    }

    /// What looked like a call is content; with the section's mark, if a reader should see that.
    fn not_one(&mut self, at: usize, call: &Call, text: &str) {
        if !call.bare() && !text.is_empty() {
            self.show_mark(at);
        }
        self.give(text, Event::Content);
    }

    /// Whether text at which a reply was cut off is the beginning of a section's mark: a single sign may be text as well, unless
    /// a call must come.
    fn begins_section(&self, text: &str) -> bool {
        let Calls::Sections { sections, .. } = &self.format.calls else { return false };
        let long = if self.must_call { 1 } else { 2 };
        self.is_cut && text.len() >= long && sections.iter().any(|s| s.open.starts_with(text))
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.state, ReplyState::Content) {
            ReplyState::Call(at, mut call) => {
                let text = call.cut_off(&mut self.pending, self.calls, &self.types, &mut self.events);
                // A JSON object by itself may be an answer.
                let begun = self.is_cut && (self.must_call || !call.bare());
                if let Some(text) = text.filter(|_| !begun) {
                    self.not_one(at, &call, &text);
                }
            }
            ReplyState::Reasoning => {
                let rest = std::mem::take(&mut self.pending);
                self.give(&rest, Event::Reasoning);
            }
            _ => {
                let rest = std::mem::take(&mut self.pending);
                if self.begins_section(&rest) {
                    self.space.clear();
                    return;
                }
                self.give(&rest, Event::Content);
                let space = std::mem::take(&mut self.space);
                if !space.is_empty() {
                    self.events.push(Event::Content(space));
                }
            }
        }
        self.pending.clear();
        self.space.clear();
    }
}
