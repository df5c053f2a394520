//! OpenAI's endpoints.

pub(crate) mod chat;
pub(crate) mod chunks;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod embeddings;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod responses;
pub(crate) mod usage;
