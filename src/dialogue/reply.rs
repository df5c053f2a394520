//! An answer while it comes: bytes in; reasoning, text up to what ends it, and calls out.

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::Json;

use crate::text::Stops;

/// Reads one answer.
pub struct Reply {
    parser: Parser,
    stops: Stops,
    /// Whether content has begun, which it does with its first visible character.
    begun: bool,
    stopped: Option<usize>,
}

impl Reply {
    /// An answer in a format, to a prompt of this text; `tools` as in a request. Texts of `stops` end its content.
    pub fn new(format: &Format, tools: Option<&Json>, prompt: &str, stops: impl IntoIterator<Item = String>) -> Reply {
        Reply { parser: Parser::new(format, tools, prompt), stops: Stops::new(stops), begun: false, stopped: None }
    }

    /// Takes more of it. Nothing comes of what stands behind a text that ended it.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let events = self.parser.push(bytes);
        self.passed(events)
    }

    /// It is over: what still waits is what it is.
    pub fn finish(&mut self) -> Vec<Event> {
        let events = self.parser.finish();
        let mut events = self.passed(events);
        if self.stopped.is_none() {
            let rest = self.stops.flush();
            events.extend(self.content(rest));
        }
        events
    }

    /// The text that ended it.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.map(|stop| self.stops.text(stop))
    }

    /// Whether what comes next is reasoning, unless its mark ends it.
    pub fn is_reasoning(&self) -> bool {
        self.parser.is_reasoning()
    }

    fn passed(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::with_capacity(events.len());
        for event in events {
            match event {
                _ if self.stopped.is_some() => break,
                Event::Content(text) => {
                    let passed = self.stops.push(&text);
                    self.stopped = passed.stop;
                    out.extend(self.content(passed.text));
                }
                other => out.push(other),
            }
        }
        out
    }

    fn content(&mut self, text: String) -> Option<Event> {
        let text = if self.begun { text } else { text.trim_start().to_string() };
        self.begun |= !text.is_empty();
        (!text.is_empty()).then_some(Event::Content(text))
    }
}
