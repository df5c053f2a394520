//! The HTTP side of an engine: the endpoints of OpenAI, Anthropic, Ollama and llama.cpp, and a page for the browser.
//!
//! It knows no model and no device. [`engine`] is all that it asks of whoever has them: requests in plain data, and a channel on
//! which events come back. [`http::serve`] serves one.

pub mod bench;
pub mod engine;
pub mod http;
pub mod page;

mod answers;
mod anthropic;
mod auth;
mod context_fit;
mod cors;
mod errors;
mod fields;
mod frames;
mod id;
mod known_fields;
mod latency;
mod logprobs;
mod media;
mod native;
mod ollama;
mod openai;
mod options;
mod running_requests;
mod stream;
mod timings;
