//! Pumex: run any GGUF model on any Vulkan GPU.
//!
//! The path of a token: [`map`] (file bytes) → [`gguf`] (names) → [`text`] (ids) and [`model`] (checked weights)
//! → [`plan`] (ops in order) → [`lower`] and [`exec`] (dispatches, on Vulkan) or [`mod@cpu`] → [`sample`] (next id)
//! → [`text`] (text again).

pub mod adapter;
pub mod chat;
pub mod conversation;
pub mod cpu;
pub mod dialogue;
pub mod embedding;
pub mod engine;
pub mod error;
pub mod exec;
pub mod file;
pub mod gguf;
pub mod grammar;
pub mod imatrix;
pub mod kernel;
pub mod lower;
pub mod map;
pub mod model;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod projector;
pub mod pruning;
pub mod quantize;
pub mod sample;
#[cfg(feature = "serve")]
pub mod server;
pub mod session;
pub mod state;
pub mod step;
pub mod synthetic;
pub mod text;
pub mod vk;
pub mod vocabulary;

pub use error::{Error, Result};
