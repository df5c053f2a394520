//! The text of a stream: server-sent events, or JSON a line (NDJSON).

use axum::http::HeaderValue;
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// How a stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    ServerSent,
    Lines,
}

impl Format {
    /// The media type.
    pub fn media(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Format::ServerSent => "text/event-stream",
            Format::Lines => "application/x-ndjson",
        })
    }
}

/// What is written and not yet sent.
pub(crate) struct Frames {
    format: Format,
    text: BytesMut,
}

impl Frames {
    pub fn new(format: Format) -> Frames {
        Frames { format, text: BytesMut::new() }
    }

    /// A value.
    pub fn data(&mut self, value: &Value) {
        let text = value.to_string();
        match self.format {
            Format::ServerSent => self.line("data: ", &text),
            Format::Lines => self.text.put_slice(text.as_bytes()),
        }
        self.text.put_u8(b'\n');
    }

    /// A value with the name of its kind, for which server-sent events have a line.
    pub fn event(&mut self, name: &str, value: &Value) {
        if self.format == Format::ServerSent {
            self.line("event: ", name);
        }
        self.data(value);
    }

    /// OpenAI's mark of a stream's end.
    pub fn write_done(&mut self) {
        self.line("data: ", "[DONE]");
        self.text.put_u8(b'\n');
    }

    /// Something that no client reads and that keeps the connection alive.
    pub fn comment(&mut self) {
        if self.format == Format::ServerSent {
            self.text.put_slice(b": ping\n\n");
        }
    }

    fn line(&mut self, name: &str, text: &str) {
        self.text.put_slice(name.as_bytes());
        self.text.put_slice(text.as_bytes());
        self.text.put_u8(b'\n');
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// What there is.
    pub fn take(&mut self) -> Option<Bytes> {
        match self.text.is_empty() {
            true => None,
            false => Some(self.text.split().freeze()),
        }
    }
}
