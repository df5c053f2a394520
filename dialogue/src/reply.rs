//! An answer while it comes: bytes in; reasoning, text up to what ends it, and calls out.

use pumex_chat::reply::{Event, Format, Parser};
use pumex_chat::Json;

use pumex_text::Stops;

/// Reads one answer.
pub struct ReplyReader {
    parser: Parser,
    stops: Stops,
    stopped: Option<usize>,
}

impl ReplyReader {
    /// An answer in a format, to a prompt of this text; `tools` as in a request. Texts of `stops` end its content.
    pub fn new(
        format: &Format,
        tools: Option<&Json>,
        prompt: &str,
        stops: impl IntoIterator<Item = String>,
    ) -> ReplyReader {
        ReplyReader { parser: Parser::new(format, tools, prompt), stops: Stops::new(stops), stopped: None }
    }

    /// This reply, for an answer that must call a function.
    pub fn must_call(self) -> ReplyReader {
        ReplyReader { parser: self.parser.must_call(), ..self }
    }

    /// Takes more of it. Nothing comes of what stands behind a text that ended it.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let events = self.parser.push(bytes);
        self.pass_events(events)
    }

    /// It is over: what still waits is what it is.
    pub fn finish(&mut self) -> Vec<Event> {
        let events = self.parser.finish();
        self.finish_events(events)
    }

    /// It was cut off: what may be the beginning of a call is none of its text.
    pub fn cut(&mut self) -> Vec<Event> {
        let events = self.parser.cut();
        self.finish_events(events)
    }

    fn finish_events(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut events = self.pass_events(events);
        if self.stopped.is_none() {
            let rest = self.stops.flush();
            events.extend(content(rest));
        }
        events
    }

    /// The text that ended it.
    pub fn stop_text(&self) -> Option<&str> {
        self.stopped.map(|stop| self.stops.text(stop))
    }

    /// Whether what comes next is reasoning, unless its mark ends it.
    pub fn is_reasoning(&self) -> bool {
        self.parser.is_reasoning()
    }

    fn pass_events(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::with_capacity(events.len());
        for event in events {
            match event {
                _ if self.stopped.is_some() => break,
                Event::Content(text) => {
                    let passed = self.stops.push(&text);
                    self.stopped = passed.stop;
                    out.extend(content(passed.text));
                }
                other => out.push(other),
            }
        }
        out
    }
}

fn content(text: String) -> Option<Event> {
    (!text.is_empty()).then_some(Event::Content(text))
}
