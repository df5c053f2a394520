//! OpenAI's endpoints.

pub(crate) mod chat;
mod chunks;
mod messages;
pub(crate) mod usage;
