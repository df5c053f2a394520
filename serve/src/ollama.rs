//! Ollama's endpoints.

pub(crate) mod chat;
pub(crate) mod embed;
pub(crate) mod generate;
mod lines;
pub(crate) mod models;
mod request;
