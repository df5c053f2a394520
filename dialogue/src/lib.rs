//! A conversation with a model: messages in, answers out, one after the other.
//!
//! [`Talk`] holds the messages. [`Style`] is how a model's template writes them and where its answers end. [`Speaker`] has the runner
//! write an answer: every turn is rendered anew, and only what differs from the ids that the runner holds is fed.

pub mod diffusion;
pub mod embedding;
pub mod grammar;
pub mod projector;
pub mod vocabulary;

mod file;
mod message;
mod reply;
mod speaker;
mod style;
mod tool_prompt;

pub use file::SavedConversation;
pub use message::{functions, Function, Message, Talk, ToolCall};
pub use reply::ReplyReader;
pub use speaker::{Answer, AnswerEnd, AnswerOptions, Speaker};
pub use style::{NoReasoning, Style};
