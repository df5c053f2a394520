//! Pumex runs GGUF models, quantized, on any Vulkan GPU, or on the CPU.
//!
//! # A text
//!
//! ```no_run
//! use pumex::Model;
//!
//! let model = Model::open("model.gguf")?;
//! for chunk in model.generate("In the beginning").max_tokens(64).stream()? {
//!     print!("{}", chunk?);
//! }
//! # Ok::<(), pumex::Error>(())
//! ```
//!
//! [`Model::from_hub`] takes a model of the Hugging Face Hub, as `ggml-org/gemma-3-1b-it-GGUF:Q4_K_M`; [`Model::options`] says where
//! and with which sizes it runs. A [`Model`] may be shared by threads: its methods take `&self`, and requests that are under way
//! together share steps.
//!
//! # A conversation
//!
//! ```no_run
//! # let model = pumex::Model::open("model.gguf")?;
//! use pumex::Message;
//!
//! let messages = [Message::system("Be brief."), Message::user("What floats on water?")];
//! let reply = model.chat(messages).temperature(0.7).seed(1).reply()?;
//! println!("{reply} ({} tokens)", reply.completion_tokens);
//! # Ok::<(), pumex::Error>(())
//! ```
//!
//! Messages may have pictures and sounds ([`Message::image`], with a projector by [`ModelOptions::mmproj`]), and answers may call
//! functions ([`Request::tool`]).
//!
//! # An answer of a shape
//!
//! ```no_run
//! # let model = pumex::Model::open("model.gguf")?;
//! let schema = serde_json::json!({
//!     "type": "object",
//!     "properties": {"stone": {"type": "string"}, "floats": {"type": "boolean"}},
//!     "required": ["stone", "floats"],
//! });
//! let text = model.chat(["Is a pumice a stone that floats?"]).json_schema(schema).text()?;
//! let value: serde_json::Value = serde_json::from_str(&text)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Request::grammar`] takes llama.cpp's grammars, [`Request::regex`] regular expressions.
//!
//! # Vectors, logits, ids
//!
//! ```no_run
//! # let model = pumex::Model::open("model.gguf")?;
//! let vectors = model.embed(["a stone", "a sea"])?;
//! let ids = model.tokenize("a stone")?;
//! let logits = model.logits(&ids)?;
//! assert_eq!(model.detokenize(&ids)?, "a stone");
//! # Ok::<(), pumex::Error>(())
//! ```
//!
//! [`Model::session`] is for programs that choose ids themselves.
//!
//! # Errors
//!
//! All methods that can fail give an [`Error`], whose text names the file, tensor, field or device, what was expected and what was
//! found. Nothing panics on a file or a request.
//!
//! Whole programs are in the folder `examples`. What is not shown here is not promised to stay as it is.

#[cfg(feature = "serve")]
mod api;

#[doc(hidden)]
pub use pumex_dialogue::{self as dialogue, diffusion, embedding, grammar, projector, vocabulary};
#[doc(hidden)]
pub use pumex_engine::{self as engine, conversation, cpu, exec, kernel, profile, session, state};
#[doc(hidden)]
pub use pumex_gguf::{self as gguf, file, imatrix, map};
#[doc(hidden)]
pub use pumex_lower::{self as lower, policy};
#[doc(hidden)]
pub use pumex_model::{self as model, adapter, pruning, quantize, synthetic};
#[doc(hidden)]
pub use pumex_plan as plan;
#[cfg(feature = "serve")]
#[doc(hidden)]
pub use pumex_server as server;
#[doc(hidden)]
pub use pumex_step::{self as step, sample};
#[doc(hidden)]
pub use pumex_text::{self as text, chat};
#[doc(hidden)]
pub use pumex_vk as vk;

#[cfg(feature = "serve")]
pub use api::{
    Answer, CallDelta, Chunk, Constraint, FinishReason, Message, Model, ModelOptions, Pooling, Prompt, Reply, Request,
    Sampler, Sampling, Session, Timings, Token, TokenLogprob, Tool, ToolCall, ToolChoice,
};
pub use pumex_gguf::{error, Error, Result};
