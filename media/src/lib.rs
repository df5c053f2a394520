//! Pictures and sounds for language models.
//!
//! A second GGUF file beside a text model, `mmproj-*.gguf`, has an encoder of pictures, of sounds, or of both. Here a medium's bytes
//! become pixels or samples, these what the encoder takes, and the encoder a graph: ops in order with shapes, for one size of
//! input. Interpreters run graphs: a plain one in f32 and a fast one, both on the CPU; a third, on Vulkan, is the engine's. What comes
//! out are rows that stand in a prompt where tokens' embeddings would.
//!
//! Knows no text model, no vocabulary and no file: tensors and metadata come from a [`Source`].
#![forbid(unsafe_code)]

mod builder;
mod config;
mod decode;
pub mod encode;
mod error;
pub mod graph;
pub mod interpret;
mod medium;
mod preprocess;
mod resize;
mod sound;
mod source;

pub use builder::{Attention, Builder};
pub use config::{Activation, Clip, Modality, ProjectorKeys};
pub use decode::{hash_bytes, Picture, PictureLimits};
pub use error::{Error, Result};
pub use graph::Graph;
pub use medium::{EncoderInput, Medium, Positions, PromptPiece, TextModel};
pub use preprocess::{place, prepare_pair, prepare_picture, takes_pairs, PreprocessOptions};
pub use resize::{fit, normalize, resize, Filter, Fit};
pub use sound::{decode_sound, is_sound, prepare_sound, sound_marks, sound_rate, SoundLimits};
pub use source::{Source, StoredTensor};
