//! Shapes of products that were measured on a device, as plain data.

use serde::{Deserialize, Serialize};

/// A product, as far as the best shape of its kernel depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TunedProduct {
    /// Row of the kernel table.
    pub kernel: String,
    /// Format of its weights, by its short name.
    pub format: String,
    /// Outputs.
    pub outputs: usize,
    /// Inputs.
    pub inputs: usize,
    /// Activation rows: the most of those that have one shape.
    pub columns: usize,
    /// Gate and up in one.
    pub gated: bool,
    /// Bits of its activations' codes.
    pub bits: u32,
}

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TunedShape {
    /// Threads of a workgroup.
    pub threads: u32,
    /// Outputs at a time; of `gemm_few`, subgroups that share a row's inputs.
    pub rows: u32,
    /// Most workgroups for each multiprocessor; none for as many as there is work for.
    pub per_core: Option<u32>,
}

impl TunedShape {
    /// Whether kernels can have it at all: what a file says may be anything.
    pub fn is_legal(self) -> bool {
        let threads = self.threads.is_power_of_two() && (32..=1024).contains(&self.threads);
        threads && [1, 2, 4, 8].contains(&self.rows) && self.per_core.is_none_or(|n| (1..=64).contains(&n))
    }
}

/// A product and the shape that was found best for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// What is multiplied.
    pub product: TunedProduct,
    /// How.
    pub shape: TunedShape,
}
