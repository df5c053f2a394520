//! OpenAI's endpoints.

pub(crate) mod chat;
pub(crate) mod chunks;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod embeddings;
mod functions;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod responses;
pub(crate) mod tools;
pub(crate) mod transcriptions;
pub(crate) mod usage;
