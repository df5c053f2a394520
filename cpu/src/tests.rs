//! Kernels against plain arithmetic, on every instruction set that the machine has.
#![allow(clippy::unwrap_used)]

mod attention;
mod products;
mod scans;
