//! Tiles by device and shape: the one place that may know a device's kind. Pure functions of plain data.

use crate::vk::{Caps, DeviceKind};
use pumex_quant::Format;

/// Which GEMV runs a product, and in what shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemvTile {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Outputs taken at a time: by a workgroup (`gemv`) or a subgroup (`gemv_dot`).
    pub rows: u32,
    /// Workgroups.
    pub groups: u32,
}

impl GemvTile {
    /// Constants of its pipeline, by name, for `k` inputs and `n` activation rows.
    pub fn spec(&self, k: usize, n: usize, gated: bool, add: bool) -> Vec<(&'static str, u32)> {
        let mut spec = vec![
            ("SIZE", self.size),
            ("ROWS", self.rows),
            ("COLS", n as u32),
            ("GATED", u32::from(gated)),
            ("ADD", u32::from(add)),
        ];
        if self.kernel == DOT {
            spec.push(("K", k as u32));
        }
        spec
    }
}

const FLOAT: &str = "gemv";
const DOT: &str = "gemv_dot";

/// Most activation rows that one GEMV takes; above, the tiled GEMM is used.
pub const GEMV_MAX_COLS: usize = 8;

/// Shared memory left for codebooks and the compiler beside coded activations.
const DOT_SHARED_RESERVE: usize = 6 << 10;

/// Whether the integer kernel can take `n` rows of `k` activations: it keeps them in shared memory, 17 bits each.
pub fn dot_fits(caps: &Caps, format: &Format, k: usize, n: usize) -> bool {
    let needed = n * k * 17 / 8 + DOT_SHARED_RESERVE;
    caps.int_dot8 && format.block_len > 1 && needed <= caps.max_shared_bytes as usize
}

/// A GEMV of `m` outputs over `k` inputs for `n` activation rows; `gated` ones read two matrices.
///
/// The integer kernel's shapes are those `sweep` found best on an NVIDIA H200: workgroups wide enough to code the
/// activations at once, and outputs enough per workgroup to make that worth it.
pub fn gemv_tile(caps: &Caps, format: &Format, m: usize, k: usize, n: usize, gated: bool) -> GemvTile {
    if !dot_fits(caps, format, k, n) {
        return float_tile(caps, m, k, n);
    }
    let rows = if m < 8192 || gated { 2 } else { 4 };
    let (size, turns) = match (m, n) {
        (..8192, _) => (512, 1),
        (..65536, 1) if gated => (512, 1),
        (..65536, 1) => (256, 1),
        (_, 1) | (..65536, 2) => (256, 2),
        (_, 2) => (1024, 2),
        _ => (512, 2),
    };
    dot_tile(caps, m, rows, size, turns)
}

/// The integer kernel with subgroups taking `rows` outputs `turns` times.
pub fn dot_tile(caps: &Caps, m: usize, rows: u32, size: u32, turns: u32) -> GemvTile {
    let size = size.min(caps.max_workgroup_invocations).max(caps.subgroup_size);
    let outputs = size / caps.subgroup_size * rows * turns;
    GemvTile { kernel: DOT, size, rows, groups: (m as u32).div_ceil(outputs) }
}

/// The float kernel: a subgroup's worth of threads per few outputs on GPUs, more outputs on software devices, where a
/// workgroup costs more than a thread.
pub fn float_tile(caps: &Caps, m: usize, k: usize, n: usize) -> GemvTile {
    let cpu = caps.kind == DeviceKind::Cpu;
    let (size, rows) = match (cpu, n) {
        (true, 0..=2) => (caps.subgroup_size.clamp(8, 64), 4),
        (true, _) => (caps.subgroup_size.clamp(8, 64), 2),
        (false, 0..=2) => (if k >= 8192 { 64 } else { 32 }, 4),
        (false, _) => (if k >= 8192 { 64 } else { 32 }, 2),
    };
    let size = size.max(caps.subgroup_size.min(64));
    GemvTile { kernel: FLOAT, size, rows, groups: (m as u32).div_ceil(rows) }
}

/// Threads per workgroup of the row-wise kernels (norm, argmax): wide on GPUs, narrow on software devices.
pub fn row_threads(caps: &Caps) -> u32 {
    if caps.kind == DeviceKind::Cpu {
        64
    } else {
        caps.max_workgroup_invocations.min(512)
    }
}

/// Rows and positions per tile of prefill attention; shared memory holds both and the scores.
pub fn prefill_tile(head_dim: usize) -> (u32, u32) {
    if head_dim <= 128 {
        (16, 32)
    } else {
        (8, 16)
    }
}
