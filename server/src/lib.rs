//! Many requests on one runner: what the HTTP side's contract (`pumex_serve::engine`) is kept with.
//!
//! [`Models`] are all that requests may name. Each has a thread that owns its runner: answers join and leave between steps, prompts
//! go in parts beside them, and sequences that begin alike share blocks. What needs no runner (tokens, templates, grammars) is worked
//! on by who asks.

mod admit;
mod answer;
mod draft;
mod embedding;
mod eyes;
mod infill;
mod launch;
mod loaded;
mod log;
mod media;
mod model;
mod models;
mod prefix;
mod queue;
mod refusal;
mod request;
mod sampling;
mod scales;
mod schedule;
mod seqs;
mod settings;
mod shared;
mod slots;
mod steady;
mod steps;
mod thread;
mod work;
mod worker;

pub use model::Served;
pub use models::{Listed, Models, Scan, Serving};
pub use sampling::of_plain as sampler_options;
pub use settings::{DraftModel, Fault, Open, OpenProjector, Settings, Usual};
