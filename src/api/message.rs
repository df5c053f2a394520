//! Messages of a conversation, with pictures and sounds, and functions that answers may call.

use crate::{Error, Result};
use pumex_serve::engine::{Medium, MediumKind, MEDIA_MARK};
use serde_json::{json, Value};
use std::path::Path;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    value: Value,
    media: Vec<Medium>,
}

impl Message {
    /// What the model is told about its part, before all others.
    pub fn system(text: impl Into<String>) -> Message {
        Message::of("system", text.into())
    }

    /// What somebody asks.
    pub fn user(text: impl Into<String>) -> Message {
        Message::of("user", text.into())
    }

    /// What the model answered.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::of("assistant", text.into())
    }

    /// What came of the call of that id.
    pub fn tool(call_id: impl Into<String>, result: impl Into<String>) -> Message {
        let value = json!({"role": "tool", "tool_call_id": call_id.into(), "content": result.into()});
        Message { value, media: Vec::new() }
    }

    /// A message in OpenAI's shape: an object with `role`, `content` as text, `tool_calls` and so on. Media are added by
    /// [`Message::image`] and its like.
    ///
    /// # Errors
    /// Something else than an object with a role.
    pub fn from_json(value: Value) -> Result<Message> {
        match value.get("role").and_then(Value::as_str) {
            Some(_) => Ok(Message { value, media: Vec::new() }),
            None => Err(Error::Request(format!("message: expected an object with a role, found {value}"))),
        }
    }

    fn of(role: &str, text: String) -> Message {
        Message { value: json!({"role": role, "content": text}), media: Vec::new() }
    }

    /// The message with a picture after what it has so far: a PNG, JPEG, GIF, WebP or BMP file.
    ///
    /// # Errors
    /// A file that cannot be read. What is in it is looked at when the message is sent.
    pub fn image(self, path: impl AsRef<Path>) -> Result<Message> {
        Ok(self.image_bytes(read(path.as_ref())?))
    }

    /// The message with a picture after what it has so far, given as the bytes of such a file.
    #[must_use]
    pub fn image_bytes(self, bytes: Vec<u8>) -> Message {
        self.medium(MediumKind::Picture, bytes)
    }

    /// The message with a sound after what it has so far: a WAV, MP3, FLAC or Ogg file.
    ///
    /// # Errors
    /// As [`Message::image`].
    pub fn audio(self, path: impl AsRef<Path>) -> Result<Message> {
        Ok(self.audio_bytes(read(path.as_ref())?))
    }

    /// The message with a sound after what it has so far, given as the bytes of such a file.
    #[must_use]
    pub fn audio_bytes(self, bytes: Vec<u8>) -> Message {
        self.medium(MediumKind::Sound, bytes)
    }

    fn medium(mut self, kind: MediumKind, bytes: Vec<u8>) -> Message {
        let mark = json!({"type": "text", "text": MEDIA_MARK});
        match self.value.get_mut("content") {
            Some(Value::Array(parts)) => parts.push(mark),
            Some(content) => {
                let text = content.take();
                *content = json!([{"type": "text", "text": text}, mark]);
            }
            None => self.value["content"] = json!([mark]),
        }
        let field = format!("media/{}", self.media.len());
        self.media.push(Medium { kind, bytes: bytes.into(), max_tokens: None, field });
        self
    }

    /// The message in OpenAI's shape, with marks where media stand, and these.
    pub(super) fn into_parts(self) -> (Value, Vec<Medium>) {
        (self.value, self.media)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::user(text)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::io(path, e))
}

/// A function that answers may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool(pub(super) Value);

impl Tool {
    /// A function of that name, what it is for, and a JSON schema of its arguments, which is an object's.
    pub fn function(name: &str, description: &str, parameters: Value) -> Tool {
        let function = json!({"name": name, "description": description, "parameters": parameters});
        Tool(json!({"type": "function", "function": function}))
    }

    /// A tool in OpenAI's shape.
    pub fn from_json(value: Value) -> Tool {
        Tool(value)
    }
}
