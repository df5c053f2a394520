//! How fast the device's memory is: the yardstick that a kernel's bytes per second are compared with.

use crate::kernel::Kernels;
use crate::vk::{Class, Device};
use crate::Result;

/// Most bytes streamed per run; far above any cache.
const MOST_BYTES: u64 = 2 << 30;
/// Bytes streamed by a software device, where there is nothing to hide behind.
const FEW_BYTES: u64 = 64 << 20;
/// Runs of each; the best counts, for it is the one least disturbed.
const RUNS: usize = 5;
/// Bytes read by one thread of the kernel in one turn of its loop, and threads of a workgroup.
const TURN_BYTES: u64 = 64 * 256;

/// Measured bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bandwidth {
    /// Of a kernel that only reads.
    pub read: f64,
    /// Of a kernel that copies, bytes read and bytes written together.
    pub copy: f64,
}

/// Streams through device memory.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn measure(device: &Device) -> Result<Bandwidth> {
    let caps = device.caps();
    let most = if caps.unified { FEW_BYTES } else { MOST_BYTES };
    let len = most.min(caps.memory_budget_bytes / 8).min(caps.max_allocation_bytes) / TURN_BYTES * TURN_BYTES;
    let x = device.buffer("bandwidth.x", len, Class::Scratch)?;
    let y = device.buffer("bandwidth.y", len, Class::Scratch)?;
    let mut kernels = Kernels::new(device);
    let mut rate = |copy: u32| -> Result<f64> {
        let pipeline = kernels.get("stream", None, &[("COPY", copy)])?;
        let mut push = [x.address().to_le_bytes(), y.address().to_le_bytes()].concat();
        push.extend(((len / 16) as u32).to_le_bytes());
        push.resize(24, 0);
        let groups = (len / TURN_BYTES).min(1 << 14) as u32;
        let mut recorder = device.recorder()?;
        recorder.keep(&x);
        recorder.keep(&y);
        recorder.dispatch(&pipeline, &push, [groups, 1, 1]);
        let recording = recorder.finish()?;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let value = device.submit(&recording)?;
            device.wait(value)?;
            best = best.min(device.gpu_us(&recording).unwrap_or(f64::INFINITY));
        }
        Ok(len as f64 * f64::from(1 + copy) / (best * 1e-6))
    };
    Ok(Bandwidth { read: rate(0)?, copy: rate(1)? })
}
