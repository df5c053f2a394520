//! Ollama's endpoints.

pub(crate) mod chat;
pub(crate) mod embed;
pub(crate) mod generate;
pub(crate) mod library;
mod lines;
pub(crate) mod models;
mod request;
