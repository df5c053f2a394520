//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]

mod adapter_scales;
mod adapters;
mod allocations;
#[cfg(feature = "serve")]
mod api;
mod attention;
mod buffer_limits;
mod changed_files;
mod checkpoints;
mod cli;
mod conv2d;
mod convert;
mod cpu;
mod dependencies;
mod device_loss;
mod devices;
mod dialogue;
mod diffusion;
mod dispatches;
mod documents;
mod embed;
mod encoder_decoder;
#[cfg(unix)]
mod ending;
mod families;
mod flags;
mod flash;
mod foreign_policies;
mod full_disk;
#[cfg(feature = "serve")]
mod fuzz;
mod general_ops;
mod gguf;
mod goldens;
mod grammar;
mod hub_and_shell;
mod kernel_variants;
mod kernels;
mod layout;
mod many_rows;
mod media;
mod megakernel;
mod models_at_hand;
mod module_fallbacks;
mod moe_tiles;
mod mutations;
mod nan_logits;
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
mod saved_states;
mod seeded;
mod selftest;
#[cfg(feature = "serve")]
mod server;
mod session;
mod signed_dots;
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
