//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]

mod adapters;
mod allocations;
mod encoder_decoder;
#[cfg(feature = "serve")]
mod api;
mod attention;
mod changed_files;
mod checkpoints;
mod foreign_policies;
mod cli;
mod conv2d;
mod convert;
mod cpu;
mod dependencies;
mod devices;
mod dialogue;
mod diffusion;
mod dispatches;
mod documents;
mod embed;
mod families;
mod flags;
mod flash;
mod module_fallbacks;
mod kernel_variants;
mod full_disk;
#[cfg(feature = "serve")]
mod fuzz;
mod general_ops;
mod gguf;
mod goldens;
mod grammar;
mod kernels;
mod layout;
mod buffer_limits;
mod device_loss;
mod many_rows;
mod media;
mod megakernel;
mod models_at_hand;
mod moe_tiles;
mod mutations;
mod offload;
#[cfg(unix)]
mod outputs;
mod panels;
mod passes;
mod pipelines;
mod placement_flags;
mod plans;
mod products;
mod profile;
mod projector;
mod pruning;
mod quantize;
mod real;
mod reference;
mod router;
mod sample;
mod sample_requests;
mod seeded;
mod selftest;
#[cfg(feature = "serve")]
mod server;
mod session;
mod signed_dots;
mod nan_logits;
mod hub_and_shell;
mod saved_states;
mod subnormal;
mod synthetic;
mod tables;
mod template;
mod tensors;
#[cfg(unix)]
mod terminal;
mod text;
mod tower;
mod tune;
mod upload;
mod util;
mod vulkan;
mod weight_types;

/// Only counts, for `allocations`.
#[global_allocator]
static COUNTING: pumex_cpu::allocations::Counting = pumex_cpu::allocations::Counting;
