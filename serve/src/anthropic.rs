//! Anthropic's endpoints.

mod documents;
mod events;
pub(crate) mod messages;
pub(crate) mod models;
mod request;
