//! Kernels of the CPU interpreter of plans: products with packed weights and activations of 8 bits, attention, and the threads
//! that share them. All of Pumex's `std::arch` code is here, and the `unsafe` that comes with it; what is public is safe.
//!
//! Kernels are written once, over the vectors of `simd`, and compiled for each [`Isa`]. They know no formats but through
//! [`layout`], no files and no plans.
// Loops over registers name them by number, and what an item works on does not become clearer in structs.
#![allow(clippy::needless_range_loop, clippy::too_many_arguments)]

mod activations;
pub mod allocations;
pub mod attention;
mod buffer;
mod file_matrix;
mod float;
mod formats;
mod isa;
pub mod layout;
mod matrix;
mod measure;
mod pack;
mod pool;
mod product;
pub mod rows;
pub mod scan;
mod simd;
#[cfg(test)]
mod tests;
pub mod threads;
mod tile;

pub use activations::Acts;
pub use buffer::Buffer;
pub use file_matrix::{DataShape, FileMatrix, Inspect};
pub use float::Float;
pub use isa::Isa;
pub use matrix::{Matrix, ProductInput};
pub use measure::Rates;
pub use pool::ThreadPool;
pub use product::{Cpu, ExpertChoices, Gating, RoutedExpert, ScaledMatrix};
