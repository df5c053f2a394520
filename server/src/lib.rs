//! Many requests on one runner: what the HTTP side's contract (`pumex_serve::engine`) is kept with.
//!
//! [`Models`] are all that requests may name. Each has a thread that owns its runner: answers join and leave between steps, prompts
//! go in parts beside them, and sequences that begin alike share blocks. What needs no runner (tokens, templates, grammars) is worked
//! on by who asks.

mod active_request;
mod admission;
mod answer;
mod deterministic;
mod draft;
mod embedding;
mod infill;
mod launch;
mod loaded_model;
mod log;
mod media;
mod model;
mod model_status;
mod model_thread;
mod models;
mod prefix;
mod projector;
mod queue;
mod refusal;
mod request;
mod sampling;
mod schedule;
mod sequences;
mod settings;
mod slots;
mod steps;
mod worker;

pub use model::ServedModel;
pub use models::{ListedModel, Models, Scan, Serving};
pub use sampling::of_plain as sampler_options;
pub use settings::{DraftModel, ModelSettings, Open, OpenProjector, TestFault, Usual};
