//! The HTTP side of an engine: the endpoints of OpenAI, Anthropic, Ollama and llama.cpp, and a page for the browser.
//!
//! It knows no model and no device. [`engine`] is all that it asks of whoever has them: requests in plain data, and a channel on
//! which events come back.

pub mod engine;
pub mod page;
