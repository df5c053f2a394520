//! The text of a conversation: chat templates, and the reasoning and tool calls of replies.
//!
//! [`Template`] makes a prompt of messages and says which of its bytes came from them. It knows no model, no tokens and no device.

mod arguments;
mod budget;
pub mod builtin;
mod clock;
mod error;
mod json;
pub mod reply;
mod template;
mod text;
mod value;

pub use arguments::ArgumentForm;
pub use budget::RenderLimits;
pub use clock::DateTime;
pub use error::{Error, Result};
pub use json::Json;
pub use template::{RenderedPrompt, Request, Template};
