//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod bench;
mod bodies;
mod chat;
mod client;
mod errors;
mod fake;
mod fields;
mod golden;
mod interfaces;
mod library;
mod limits;
mod media;
mod random;
mod router;
mod tls;
mod transcriptions;
