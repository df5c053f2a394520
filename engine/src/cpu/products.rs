//! Products of encoders of pictures and sounds, by the CPU's kernels for floats.

use super::fast::{FastSettings, Threads};
use pumex_cpu::{Acts, Cpu, DataShape, Matrix, ProductInput, ScaledMatrix};
use pumex_media::interpret::Products;
use pumex_quant::FormatId;
use std::sync::Arc;

/// Threads, and activations in 8 bits that no product with floats reads.
pub struct EncoderProducts {
    cpu: Arc<Cpu>,
    none: Acts,
}

impl EncoderProducts {
    /// Starts the threads.
    pub fn new(settings: &FastSettings) -> EncoderProducts {
        EncoderProducts { cpu: Threads::new(settings).cpu(), none: Acts::default() }
    }
}

impl Products for EncoderProducts {
    fn multiply(&self, (format, bytes): (FormatId, &[u8]), [n, m, k]: [usize; 3], x: &[f32], out: &mut [f32]) {
        let shape = DataShape { parts: 1, rows: m, cols: k };
        let matrix = Matrix::new((&self.cpu.pool, self.cpu.isa), format.format(), shape, bytes, false);
        let part = ScaledMatrix { matrix: &matrix, scale: 1.0, bias: None };
        self.cpu.multiply(&[part], &ProductInput { floats: x, acts: &self.none }, n, false, (0, m), out);
    }
}
