//! Tiles by device and shape: the one place that may know a device's kind. Pure functions of plain data.

use crate::vk::{Caps, DeviceKind};
use pumex_quant::Format;

/// Threads and outputs per workgroup of a GEMV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemvTile {
    /// Threads.
    pub size: u32,
    /// Outputs.
    pub rows: u32,
}

/// Most activation rows that one GEMV takes; above, the tiled GEMM is used.
pub const GEMV_MAX_COLS: usize = 8;

/// Tile of a GEMV of `m` outputs over `k` inputs for `n` activation rows.
///
/// A subgroup's worth of threads per output on GPUs, several outputs per workgroup on software devices, where a workgroup
/// costs more than a thread.
pub fn gemv_tile(caps: &Caps, _format: &Format, m: usize, k: usize, n: usize) -> GemvTile {
    if caps.kind == DeviceKind::Cpu {
        return GemvTile { size: caps.subgroup_size.clamp(8, 64), rows: if n > 2 { 2 } else { 4 } };
    }
    let size = if k >= 8192 { 64 } else { 32 };
    GemvTile { size: size.max(caps.subgroup_size.min(64)), rows: if m >= 32768 { 2 } else { 1 } }
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
