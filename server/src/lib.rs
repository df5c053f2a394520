//! Many requests on one runner: what the HTTP side's contract (`pumex_serve::engine`) is kept with.
//!
//! [`Models`] are all that requests may name. Each has a thread that owns its runner: answers join and leave between steps, prompts
//! go in parts beside them, and sequences that begin alike share blocks. What needs no runner (tokens, templates, grammars) is worked
//! on by who asks.

mod admission;
mod answer;
mod draft;
mod embedding;
mod projector;
mod infill;
mod launch;
mod loaded_model;
mod log;
mod media;
mod model;
mod models;
mod prefix;
mod queue;
mod refusal;
mod request;
mod sampling;
mod adapter_scales;
mod schedule;
mod sequences;
mod settings;
mod model_status;
mod slots;
mod deterministic;
mod steps;
mod model_thread;
mod active_request;
mod worker;

pub use model::ServedModel;
pub use models::{ListedModel, Models, Scan, Serving};
pub use sampling::of_plain as sampler_options;
pub use settings::{DraftModel, Fault, Open, OpenProjector, Settings, Usual};
