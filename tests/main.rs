//! One test binary, linked once; a line per module.
#![allow(clippy::unwrap_used, missing_docs)]

mod adapters;
mod allocations;
mod answers;
#[cfg(feature = "serve")]
mod api;
mod attention;
mod changed;
mod checkpoints;
mod choices;
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
mod floor;
mod forced;
mod full_disk;
#[cfg(feature = "serve")]
mod fuzz;
mod general;
mod gguf;
mod goldens;
mod grammar;
mod kernels;
mod layout;
mod limits;
mod lost;
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
mod places;
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
mod spoilt;
mod start;
mod states;
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
