//! Anthropic's endpoints.

mod events;
pub(crate) mod messages;
mod request;
